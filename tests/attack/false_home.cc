// Somebody who may write to the database sends a group to a home of theirs, which records what comes. The worker must
// not send its token there, and must join again once the database is mended.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/file_descriptor.h"
#include "server/net/listen_address.h"
#include "tests/attack/attack.h"
#include "tests/attack/shared_target.h"
#include "tests/e2e/process.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

constexpr int kVisits = 4;  // of the worker, before the database is mended

// Accepts connections, answers nothing, and keeps all bytes.
class FalseHome {
 public:
  FalseHome() {
    auto sockets = ListeningSockets::Bind("home", "127.0.0.1:0", /*local_only=*/true);
    KINORA_CHECK(sockets.ok()) << sockets.status();
    listening_ = *std::move(sockets);
    thread_ = std::thread([this] { Listen(); });
  }
  ~FalseHome() {
    stopping_ = true;
    thread_.join();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", listening_.port()); }
  std::string AwaitVisits(int visits) {  // all bytes of them
    const auto came = [&] {
      mu_.AssertHeld();
      return visits_ >= visits;
    };
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&came), absl::Minutes(2))) << visits_ << " visits";
    return bytes_;
  }

 private:
  void Listen() {
    std::vector<FileDescriptor> visitors;
    while (!stopping_) {
      std::vector<pollfd> files = {{.fd = listening_.sockets()[0].get(), .events = POLLIN, .revents = 0}};
      for (const FileDescriptor& visitor : visitors)
        files.push_back({.fd = visitor.get(), .events = POLLIN, .revents = 0});
      if (poll(files.data(), files.size(), 100) <= 0) continue;
      for (size_t i = 1; i < files.size(); ++i) Read(files[i]);
      std::erase_if(visitors, [&](const FileDescriptor& visitor) { return ended_ == visitor.get(); });
      ended_ = -1;
      if (files[0].revents == 0) continue;
      visitors.emplace_back(accept4(files[0].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      absl::MutexLock lock(&mu_);
      ++visits_;
    }
  }
  void Read(const pollfd& visitor) {
    if (visitor.revents == 0) return;
    char piece[4096];
    const ssize_t bytes = recv(visitor.fd, piece, sizeof(piece), 0);
    if (bytes <= 0) ended_ = visitor.fd;
    absl::MutexLock lock(&mu_);
    if (bytes > 0) bytes_.append(piece, static_cast<size_t>(bytes));
  }

  ListeningSockets listening_;
  int ended_ = -1;  // a visitor that has gone
  std::atomic<bool> stopping_ = false;
  absl::Mutex mu_;
  int visits_ ABSL_GUARDED_BY(mu_) = 0;
  std::string bytes_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

std::string WritePrivate(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  KINORA_CHECK_EQ(chmod(path.c_str(), 0600), 0);
  return path;
}

absl::Status SendGroupAway(const SharedTarget& shared, const TemporaryDirectory& directory, const Target& target,
                           Effort& effort) {
  FalseHome home;
  PostgresServer::Execute(
      shared.database,
      absl::StrCat("INSERT INTO kinora.frontends (id, address, join_address, lease_micros) VALUES ('false', '', '",
                   home.address(),
                   "', kinora.kinora_now() + 3600000000); "
                   "INSERT INTO kinora.homes (group_id, frontend) VALUES ('far', 'false')"));
  const std::string join_port = target.join_address().substr(target.join_address().rfind(':'));
  const Process worker({KINORA_SCRIPTED_WORKER_BINARY, "--group=far", "--model=scripted", "--http-address=",
                        "--frontend=localhost" + join_port, "--tls-ca-file=" + directory.File("certificate"),
                        "--token-file=" + WritePrivate(directory.File("token"), Target::JoinToken() + "\n")});
  const std::string bytes = home.AwaitVisits(kVisits);
  effort.connections += kVisits;
  effort.bytes += static_cast<int64_t>(bytes.size());
  if (bytes.empty()) return absl::InternalError("nothing was sent to the false home");
  if (bytes.find(Target::JoinToken()) != std::string::npos) return absl::InternalError("the token was sent there");
  if (target.Log().find("event=worker_joined group=far") != std::string::npos) {
    return absl::InternalError("the worker joined although its home was elsewhere");
  }
  PostgresServer::Execute(shared.database, "DELETE FROM kinora.homes; DELETE FROM kinora.frontends WHERE id = 'false'");
  const absl::Time end = Clock::Steady().Now() + absl::Minutes(1);
  while (target.Log().find("event=worker_joined group=far") == std::string::npos) {
    if (Clock::Steady().Now() > end) return absl::DeadlineExceededError("the worker did not join");
    std::this_thread::yield();
  }
  return absl::OkStatus();
}

int Run() {
  const SharedTarget shared;
  const TemporaryDirectory directory;
  const TestCertificate certificate = MakeCertificate({.name = "localhost"});
  std::vector<std::string> flags = shared.flags;
  flags.push_back("--join-tls-certificate-file=" +
                  WritePrivate(directory.File("certificate"), certificate.certificate));
  flags.push_back("--join-tls-key-file=" + WritePrivate(directory.File("key"), certificate.key));
  return RunAttack({.name = "false_home",
                    .flags = flags,
                    .join_port = true,
                    .most_growth_bytes = 64 << 20,
                    .attack = [&](const Target& target, Effort& effort) {
                      return SendGroupAway(shared, directory, target, effort);
                    }});
}

}  // namespace
}  // namespace kinora

int main() { return kinora::Run(); }
