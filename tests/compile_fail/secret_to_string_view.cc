// A Secret is no string_view (S-6).
// expect: conversion from .*Secret.* to non-scalar type|no viable conversion from .*Secret
#include <string_view>

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  std::string_view text = secret;
#else
  std::string_view text = secret.reveal();
#endif
}
