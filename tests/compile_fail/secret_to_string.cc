// A Secret is no string (S-6).
// expect: conversion from .*Secret.* to non-scalar type|no viable conversion from .*Secret
#include <string>

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  std::string text = secret;
#else
  std::string text(secret.reveal());
#endif
}
