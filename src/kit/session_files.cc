// File transfers of a session.
#include "kit/session_files.h"

namespace caisson::kit {

Transfer::Transfer(std::shared_ptr<ManagedSession> session) : session_(std::move(session)) {
  session_->table_->require_own_process();
  session_->require_live();
  ++session_->transfers_;
}

Transfer::~Transfer() {
  session_->table_->touch(session_->id());
  --session_->transfers_;
  session_->change_event_.notify();
}

namespace {

Awaitable<std::string> read_piece(std::shared_ptr<ManagedSession> session,
                                  std::shared_ptr<SandboxFileReader> inner, std::size_t max_bytes) {
  Transfer transfer(session);
  co_return co_await inner->read(max_bytes);
}

Awaitable<void> write_piece(std::shared_ptr<ManagedSession> session, std::shared_ptr<SandboxFileWriter> inner,
                            std::string data) {
  Transfer transfer(session);
  co_await inner->write(std::move(data));
}

Awaitable<void> commit_file(std::shared_ptr<ManagedSession> session,
                            std::shared_ptr<SandboxFileWriter> inner) {
  Transfer transfer(session);
  co_await inner->commit();
}

class SessionReader final : public SandboxFileReader {
 public:
  SessionReader(std::shared_ptr<ManagedSession> session, std::shared_ptr<SandboxFileReader> inner)
      : session_(std::move(session)), inner_(std::move(inner)) {}
  Awaitable<std::string> read(std::size_t max_bytes) override {
    return on_strand(session_->strand(), read_piece(session_, inner_, max_bytes));
  }
  std::uint64_t size() const noexcept override { return inner_->size(); }

 private:
  std::shared_ptr<ManagedSession> session_;
  std::shared_ptr<SandboxFileReader> inner_;
};

class SessionWriter final : public SandboxFileWriter {
 public:
  SessionWriter(std::shared_ptr<ManagedSession> session, std::shared_ptr<SandboxFileWriter> inner)
      : session_(std::move(session)), inner_(std::move(inner)) {}
  Awaitable<void> write(std::string data) override {
    return on_strand(session_->strand(), write_piece(session_, inner_, std::move(data)));
  }
  Awaitable<void> commit() override { return on_strand(session_->strand(), commit_file(session_, inner_)); }

 private:
  std::shared_ptr<ManagedSession> session_;
  std::shared_ptr<SandboxFileWriter> inner_;
};

}  // namespace

Awaitable<std::unique_ptr<SandboxFileReader>> begin_read(std::shared_ptr<ManagedSession> session,
                                                         std::string path) {
  Transfer transfer(session);
  std::shared_ptr<SandboxFileReader> inner = co_await session->box()->open_reader(std::move(path));
  std::unique_ptr<SandboxFileReader> reader = std::make_unique<SessionReader>(session, std::move(inner));
  co_return reader;
}

Awaitable<std::unique_ptr<SandboxFileWriter>> begin_write(std::shared_ptr<ManagedSession> session,
                                                          std::string path, FileMode mode) {
  Transfer transfer(session);
  std::shared_ptr<SandboxFileWriter> inner = co_await session->box()->open_writer(std::move(path), mode);
  std::unique_ptr<SandboxFileWriter> writer = std::make_unique<SessionWriter>(session, std::move(inner));
  co_return writer;
}

}  // namespace caisson::kit
