// The leak check: fails a test that leaves something behind.
#pragma once

#include <chrono>

namespace caisson::test {

/// Adds a listener to GoogleTest that fails every test, and every test suite with its shared set-up, which
/// leaves any of the traces of traces.h behind, naming them. What goes by itself gets `patience` to go.
void install_leak_check(std::chrono::milliseconds patience = std::chrono::seconds(2));

}  // namespace caisson::test
