// Tests of capabilities: each change beside what can be done before it.
#include "os/capabilities.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <unistd.h>

#include "tests/support/forked.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

using test::in_child;

constexpr CapabilityMask chown_only = capability(CAP_CHOWN);

class OwnCapabilities : public testing::Test {
 protected:
  void SetUp() override {
    if (own_capabilities()->permitted == 0) GTEST_SKIP() << "this process has no capabilities to change";
  }
};

std::string said(const Result<void>& result) { return result ? "fine" : result.error().message(); }

// Whether this process may give a file away, which takes CAP_CHOWN.
bool may_give_away(const std::string& path) { return ::chown(path.c_str(), 12345, 12345) == 0; }

TEST_F(OwnCapabilities, AmbientOnesAreAllThatArePermittedUntilTheyAreCleared) {
  EXPECT_EQ(in_child([] {
              const auto before = *own_capabilities();
              if (*ambient_capabilities() != 0) return std::string("some before");
              if (const auto done = raise_ambient_capabilities(); !done) return said(done);
              if (own_capabilities()->inheritable != before.permitted) return std::string("not inheritable");
              if (*ambient_capabilities() != before.permitted) return std::string("not ambient");
              if (const auto done = clear_ambient_capabilities(); !done) return said(done);
              if (*ambient_capabilities() != 0) return std::string("some after");
              return std::string(own_capabilities()->permitted == before.permitted ? "fine" : "lost");
            }),
            "fine");
}

TEST_F(OwnCapabilities, LimitTakesThePowerAway) {
  const test::TemporaryDirectory temporary;
  const std::string file = temporary / "f";
  EXPECT_EQ(in_child([&] {
              const Fd made = Fd::adopt(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
              if (!may_give_away(file)) return std::string("it could not before");
              if (const auto done = raise_ambient_capabilities(); !done) return said(done);
              if (const auto done = limit_capabilities(chown_only); !done) return said(done);
              if (!may_give_away(file)) return std::string("it lost what it was to keep");
              if (*own_capabilities() != Capabilities{chown_only, chown_only, chown_only})
                return std::string("not what was asked for");
              if (*ambient_capabilities() != chown_only) return std::string("ambient ones are left");
              if (const auto done = limit_capabilities(0); !done) return said(done);
              if (may_give_away(file)) return std::string("it still could");
              return said(set_capabilities({chown_only, chown_only, 0}));
            }),
            error_of(EPERM).message());
}

TEST_F(OwnCapabilities, SetsAreWhatWasSet) {
  EXPECT_EQ(in_child([] {
              const Capabilities wanted{chown_only | capability(CAP_KILL), chown_only,
                                        capability(CAP_CHECKPOINT_RESTORE)};
              if (const auto done = set_capabilities(wanted); !done) return said(done);
              return std::string(*own_capabilities() == wanted ? "fine" : "others");
            }),
            "fine");
}

TEST_F(OwnCapabilities, BoundingSetIsLimitedForGood) {
  EXPECT_EQ(in_child([] {
              if ((*bounding_capabilities() & ~chown_only) == 0) return std::string("nothing to take");
              if (const auto done = limit_bounding_capabilities(chown_only); !done) return said(done);
              if (*bounding_capabilities() != chown_only) return std::string("others are left");
              // Nothing more to take: no privilege is needed.
              if (const auto done = limit_capabilities(0); !done) return said(done);
              if (const auto done = limit_bounding_capabilities(chown_only); !done) return said(done);
              return said(limit_bounding_capabilities(0));
            }),
            error_of(EPERM).message());
}

TEST(CapabilityNames, AreTheKernels) {
  EXPECT_EQ(capability_name(CAP_SYS_ADMIN), "CAP_SYS_ADMIN");
  EXPECT_EQ(capability_name(CAP_NET_BIND_SERVICE), "CAP_NET_BIND_SERVICE");
  EXPECT_EQ(capability_name(63), "capability 63");
  EXPECT_EQ(capability_names(capability(CAP_KILL) | chown_only), "CAP_CHOWN, CAP_KILL");
  EXPECT_EQ(capability_names(0), "none");
}

}  // namespace
}  // namespace caisson::os
