// Which sanitizers a test is built with, for what does not go together with one.
#pragma once

// Its vptr check makes a pipe to look at memory, and takes the lack of descriptors for a finding.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define CAISSON_UBSAN
#endif
#endif
