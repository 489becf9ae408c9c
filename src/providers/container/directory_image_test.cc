// Boxes of a directory: used in place, read-only, with the box's own ids (S-101, S-103).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "providers/container/box_bed_test.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class DirectoryImageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root makes idmapped mounts";
    for (const char* program :
         {"dash", "cat", "ls", "id", "touch", "chown", "stat", "rm", "mkdir", "head", "grep"})
      add_program(program);
    fs::create_symlink("dash", image_ + "/usr/bin/sh");
    fs::create_directory_symlink("usr/bin", image_ + "/bin");
    fs::create_directories(image_ + "/etc");
    fs::create_directories(image_ + "/data/below");
    fs::create_directories(image_ + "/home/toor");
    std::ofstream(image_ + "/etc/passwd") << "toor:x:0:0::/home/toor:/bin/sh\n";
    std::ofstream(image_ + "/data/file") << "the image's\n";
  }
  // A program with the libraries that it is linked to.
  void add_program(const std::string& name) {
    const std::string path = "/usr/bin/" + name;
    copy(path);
    FILE* const libraries = ::popen(("ldd " + path).c_str(), "r");
    char line[512];
    while (::fgets(line, sizeof line, libraries) != nullptr) {
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        if (word.starts_with("/")) copy(word);
      }
    }
    ::pclose(libraries);
  }
  void copy(const std::string& path) {
    if (!copied_.insert(path).second) return;
    fs::create_directories(fs::path(image_ + path).parent_path());
    fs::copy_file(path, image_ + path, fs::copy_options::overwrite_existing);
  }
  std::string out_of(const std::shared_ptr<ContainerBox>& box, const std::string& script) {
    const Ran ran = bed_.run(box, script);
    return ran.out + ran.err;
  }

  BoxBed bed_;
  const std::string image_ = bed_.temporary / "image";
  std::set<std::string> copied_;
};

TEST_F(DirectoryImageTest, S103_TheFilesAreTheBoxRoots) {
  ASSERT_EQ(::chown((image_ + "/data/below").c_str(), 1000, 1001), 0);
  const auto box = bed_.make(first_slot, image_);
  EXPECT_EQ(out_of(box, "cat /data/file; stat -c %u:%g /data/file /data/below; id -u; echo $HOME"),
            "the image's\n0:0\n1000:1001\n0\n/home/toor\n");
  EXPECT_THAT(out_of(box, "cat /etc/passwd /etc/hostname"), StartsWith("toor:x:0"));
}

TEST_F(DirectoryImageTest, S101_WhatIsWrittenIsThrownAway) {
  {
    const auto box = bed_.make(first_slot, image_);
    EXPECT_EQ(
        out_of(box,
               "echo new > /data/file; mkdir /opt; rm -r /data/below; mkdir /data/below; cat /data/file; "
               "ls -d /opt; ls /data/below"),
        "new\n/opt\n");
    const auto other = bed_.make(second_slot, image_);
    EXPECT_EQ(out_of(other, "cat /data/file; ls /opt"),
              "the image's\nls: cannot access '/opt': No such file or directory\n");
  }
  EXPECT_EQ(box_text_of(image_ + "/data/file"), "the image's\n");
  EXPECT_TRUE(fs::exists(image_ + "/data/below"));
  EXPECT_FALSE(fs::exists(image_ + "/opt"));
  EXPECT_FALSE(fs::exists(image_ + "/workspace"));
}

TEST_F(DirectoryImageTest, S101_TheLayerHasItsSize) {
  const auto box = bed_.make(first_slot, image_);
  EXPECT_THAT(out_of(box, "head -c 9000000 /dev/zero > /data/big"), HasSubstr("No space left"));
  EXPECT_EQ(out_of(box, "rm /data/big; head -c 5000000 /dev/zero > /data/some"), "");
}

TEST_F(DirectoryImageTest, S103_RootKeepsWhatPackageManagersNeed) {
  const auto box = bed_.make(first_slot, image_);
  EXPECT_EQ(
      out_of(box,
             "touch /data/mine; chown 33:33 /data/mine /data/file && stat -c %u:%g /data/mine /data/file"),
      "33:33\n33:33\n");
  EXPECT_THAT(out_of(box, "grep Cap /proc/self/status"), HasSubstr("CapEff:\t00000000000000fb"));
  BoxBed none;
  none.settings.capabilities = false;
  EXPECT_THAT(none.run(none.make(first_slot, image_), "chown 33:33 /data/file").err,
              HasSubstr("Operation not permitted"));
}

// What only this machine's root may read is not the box root's for being a root.
TEST_F(DirectoryImageTest, S103_FilesOfIdsBeyondTheSlotAreNobodys) {
  const std::string secret = image_ + "/data/secret";
  std::ofstream(secret) << "secret\n";
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  const auto box = bed_.make(first_slot, image_);
  EXPECT_EQ(out_of(box, "cat /data/secret"), "secret\n") << "the control: the image's own";
  ASSERT_EQ(::chown(secret.c_str(), 70000, 70000), 0);
  EXPECT_THAT(out_of(bed_.make(second_slot, image_), "cat /data/secret"), HasSubstr("Permission denied"));
}

TEST_F(DirectoryImageTest, S70_FilesAreTheBoxs) {
  const auto box = bed_.make(first_slot, image_);
  bed_.put(box, "/data/file", "put");
  EXPECT_EQ(bed_.read(box, "/data/file"), "put");
  EXPECT_EQ(out_of(box, "cat /data/file; stat -c %u /data/file"), "put0\n");
  EXPECT_EQ(box_text_of(image_ + "/data/file"), "the image's\n");
}

}  // namespace
}  // namespace caisson::container
