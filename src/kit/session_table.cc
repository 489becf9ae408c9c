// The ledger in memory.
#include "kit/session_table.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>

#include "kit/managed_session.h"
#include "os/self.h"

namespace caisson::kit {
namespace {

// A reading of two clocks one after the other differs a little each time; only a larger difference is a
// wall-clock step.
constexpr std::chrono::milliseconds clock_step{500};
constexpr std::chrono::seconds close_patience{2};

}  // namespace

SessionTable::SessionTable(ManagedOptions options, ProviderHooks hooks)
    : options_(std::move(options)), hooks_(std::move(hooks)), owner_(os::own_pid()) {}
SessionTable::~SessionTable() = default;

void SessionTable::bind_policy(SandboxPolicy policy) {
  std::lock_guard lock(mutex_);
  policy_ = policy;
}

std::optional<SandboxPolicy> SessionTable::policy() const {
  std::lock_guard lock(mutex_);
  return policy_;
}

std::chrono::nanoseconds SessionTable::utc_offset() const {
  return options_.clock->utc().time_since_epoch() - options_.clock->now().time_since_epoch();
}

std::optional<BootTime> SessionTable::end_of_life(const Entry& entry) const {
  if (!options_.dispatch.max_lifetime_seconds) return std::nullopt;
  return entry.created + std::chrono::duration_cast<BootClock::duration>(
                             std::chrono::duration<double>(*options_.dispatch.max_lifetime_seconds));
}

// S-20: max(now, latest deadline of a live exec) + ttl, and no later than the session may live.
void SessionTable::extend(Entry& entry) {
  BootTime from = options_.clock->now();
  if (!entry.exec_deadlines.empty()) from = std::max(from, *entry.exec_deadlines.rbegin());
  entry.expires = from + std::chrono::seconds(entry.session->record().spec.ttl_seconds);
  if (const auto end = end_of_life(entry)) entry.expires = std::min(entry.expires, *end);
  entry.utc_offset = utc_offset();
}

bool SessionTable::add(std::shared_ptr<ManagedSession> session, BootTime created) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  Entry entry;
  entry.session = std::move(session);
  entry.created = created;
  extend(entry);
  const std::string id = entry.session->id();
  entries_.emplace(id, std::move(entry));
  return true;
}

std::shared_ptr<ManagedSession> SessionTable::find_live(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  if (at == entries_.end() || !at->second.live) throw SandboxSessionNotFoundError(id);
  return at->second.session;
}

std::shared_ptr<ManagedSession> SessionTable::find(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : at->second.session;
}

namespace {

void sort_as_ledger(std::vector<std::shared_ptr<ManagedSession>>& sessions) {
  std::ranges::sort(sessions, {}, [](const auto& session) {
    return std::pair(session->record().created_at, std::cref(session->id()).get());
  });
}

}  // namespace

std::vector<std::shared_ptr<ManagedSession>> SessionTable::all() const {
  std::vector<std::shared_ptr<ManagedSession>> sessions;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) sessions.push_back(entry.session);
  }
  sort_as_ledger(sessions);
  return sessions;
}

bool SessionTable::touch(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  if (at == entries_.end() || !at->second.live) return false;
  extend(at->second);
  return true;
}

bool SessionTable::exec_begins(const std::string& id, BootTime deadline) {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  if (at == entries_.end() || !at->second.live) return false;
  at->second.exec_deadlines.insert(deadline);
  extend(at->second);
  return true;
}

void SessionTable::exec_ends(const std::string& id, BootTime deadline) {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  if (at == entries_.end()) return;
  auto& deadlines = at->second.exec_deadlines;
  if (const auto own = deadlines.find(deadline); own != deadlines.end()) deadlines.erase(own);
  if (at->second.live) extend(at->second);
}

bool SessionTable::is_live(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  return at != entries_.end() && at->second.live;
}

void SessionTable::begin_end(const std::string& id) {
  std::lock_guard lock(mutex_);
  if (const auto at = entries_.find(id); at != entries_.end()) at->second.live = false;
}

std::vector<std::shared_ptr<ManagedSession>> SessionTable::begin_reap() {
  std::vector<std::shared_ptr<ManagedSession>> due;
  {
    std::lock_guard lock(mutex_);
    const BootTime now = options_.clock->now();
    for (auto& [id, entry] : entries_) {
      if (entry.live && entry.expires > now) continue;
      entry.live = false;
      due.push_back(entry.session);
    }
  }
  sort_as_ledger(due);
  return due;
}

void SessionTable::remove(const std::string& id) {
  std::lock_guard lock(mutex_);
  entries_.erase(id);
}

std::optional<UtcTime> SessionTable::expires_at(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  if (at == entries_.end()) return std::nullopt;
  auto offset = utc_offset();
  if (std::chrono::abs(offset - at->second.utc_offset) < clock_step) offset = at->second.utc_offset;
  return UtcTime(at->second.expires.time_since_epoch() + offset);
}

std::optional<BootTime> SessionTable::end_of_life(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto at = entries_.find(id);
  if (at == entries_.end()) return std::nullopt;
  return end_of_life(at->second);
}

std::vector<std::shared_ptr<ManagedSession>> SessionTable::close() {
  std::vector<std::shared_ptr<ManagedSession>> left;
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    // A call whose event loop has stopped never ends: what shows a running loop is that it runs something.
    for (bool alive = true; alive && provider_calls_ > 0;) {
      const auto ran = std::make_shared<std::atomic<bool>>(false);
      boost::asio::post(options_.executor, [ran] { *ran = true; });
      provider_idle_.wait_for(lock, close_patience, [this] { return provider_calls_ == 0; });
      alive = *ran;
    }
    for (auto& [id, entry] : entries_) {
      entry.live = false;
      left.push_back(entry.session);
    }
    entries_.clear();
  }
  sort_as_ledger(left);
  return left;
}

bool SessionTable::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void SessionTable::require_own_process() const {
  if (os::own_pid() == owner_) return;
  throw SandboxError(
      ErrorCode::unavailable,
      "the sandbox was opened before a fork and cannot be used in the child: open one in the child");
}

SessionTable::ProviderCall::ProviderCall(std::shared_ptr<SessionTable> table) : table_(std::move(table)) {
  const std::lock_guard lock(table_->mutex_);
  if (table_->closed_) {
    throw SandboxError(ErrorCode::session_destroyed, "the sandbox was closed; open a new one");
  }
  ++table_->provider_calls_;
}

SessionTable::ProviderCall::~ProviderCall() {
  const std::lock_guard lock(table_->mutex_);
  if (--table_->provider_calls_ == 0) table_->provider_idle_.notify_all();
}

}  // namespace caisson::kit
