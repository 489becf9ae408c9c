// BoxPool: boxes made ahead of the sessions that will have them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "caisson/kit/log.h"
#include "caisson/kit/managed_sandbox.h"
#include "providers/container/container_box.h"

namespace caisson::container {

/// A few sessions that wait for who asks for one like them: ephemeral, of image `host`, without caps. Each
/// has its id, its record and a built box already, so that creating one is to pass it on; a recovery handles
/// those of a dead process like any session's.
///
/// Nothing is made before the first session was: a program that has none pays for none. Thread-safe.
class BoxPool : public std::enable_shared_from_this<BoxPool> {
 public:
  struct Work {
    /// Makes a session's box, and ends it. As the provider's create_resources() and destroy_resources().
    std::function<Awaitable<std::shared_ptr<ContainerBox>>(kit::SessionRecord)> make;
    std::function<Awaitable<void>(kit::SessionRecord)> end;
    /// Runs work that the provider waits for before it closes.
    std::function<void(Awaitable<void>, const char* what)> run_in_background;
    /// Ends one too, blocking; for a pool that closes.
    std::function<void(const std::string& id)> end_now;
  };
  /// Of `size` boxes at most.
  BoxPool(std::size_t size, std::shared_ptr<kit::Clock> clock, kit::Log log, Work work);

  /// The id of one that such a session can have, set aside for it, if there is one.
  std::optional<std::string> reserve(const SandboxSessionSpec& spec);
  /// The box that was set aside under that id; null: none was. The session of that id is the caller's from
  /// here on.
  std::shared_ptr<ContainerBox> take(const std::string& id);
  /// Makes what is missing, in the background, one after the other; returns at once.
  void refill();
  /// Begins no other box.
  void stop() noexcept;
  /// Ends all that nobody took, blocking, once none is being made.
  void end_all() noexcept;

 private:
  struct Waiting {
    std::string id;
    std::shared_ptr<ContainerBox> box;
    std::string host;  // What of the host it was made from.
  };
  static Awaitable<void> fill(std::shared_ptr<BoxPool> self);
  static Awaitable<void> make_one(std::shared_ptr<BoxPool> self);
  kit::SessionRecord new_record() const;
  bool begin_one();
  void end_soon(const std::string& id);
  bool keep(Waiting& waiting);
  void stop_filling() noexcept;

  const std::size_t size_;
  const std::shared_ptr<kit::Clock> clock_;
  const kit::Log log_;
  const Work work_;

  std::mutex mutex_;
  std::vector<Waiting> ready_;
  std::map<std::string, std::shared_ptr<ContainerBox>> reserved_;
  bool filling_ = false;
  bool stopped_ = false;
};

}  // namespace caisson::container
