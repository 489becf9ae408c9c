// FileServer: files of a box opened and replaced for the host, with the rights of the box's user.
#pragma once

#include <map>
#include <string>

#include "init/box.h"

namespace caisson::init {

/// Never waits for anything but the file system. Every path is the box's own; only regular files are opened.
class FileServer {
 public:
  struct OpenedFile {
    Opened opened;
    os::Fd file;
  };
  struct OpenedPut {
    PutOpened opened;
    os::Fd file;
  };

  /// `box` is borrowed.
  explicit FileServer(const Box& box) noexcept : box_(&box) {}
  FileServer(FileServer&&) noexcept = default;
  FileServer& operator=(FileServer&&) = delete;
  ~FileServer() { abort_all(); }

  BoxResult<OpenedFile> open(const OpenFile& request);
  BoxResult<OpenedPut> begin(const BeginPut& request);
  BoxResult<void> commit(const CommitPut& request);
  BoxResult<void> abort(const AbortPut& request);
  void abort_all() noexcept;

 private:
  struct Put {
    os::Fd directory;
    std::string name;
    std::string temporary;  ///< Empty: the file has no name yet.
    os::Fd file;
    mode_t mode;
  };

  BoxResult<Put> prepare(const BeginPut& request);

  const Box* box_;
  std::map<std::uint64_t, Put> puts_;
  std::uint64_t next_ = 1;
};

}  // namespace caisson::init
