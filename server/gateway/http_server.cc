#include "server/gateway/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/base/clock.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/log_limit.h"
#include "server/gateway/client_address.h"
#include "server/gateway/http_session.h"
#include "server/gateway/origin_check.h"
#include "server/gateway/rate_limit.h"
#include "server/net/listen_address.h"

namespace kinora {
namespace {

using boost::system::error_code;

constexpr auto kPause = std::chrono::milliseconds(100);  // after accept lacked descriptors or memory
constexpr int kAcceptsAtOnce = 64;

std::string LocalHostOf(int fd) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  return getsockname(fd, address.get(), &address.size) == 0 ? address.Host() : "";
}

absl::StatusOr<std::optional<boost::asio::ssl::context>> MakeTls(const HttpTls& tls) {
  if (tls.certificate_chain.empty()) return std::nullopt;
  boost::asio::ssl::context context(boost::asio::ssl::context::tls_server);
  error_code error;
  const auto buffer = [](const std::string& text) { return boost::asio::buffer(text.data(), text.size()); };
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  context.use_certificate_chain(buffer(tls.certificate_chain), error);
  if (!error) context.use_private_key(buffer(tls.private_key), boost::asio::ssl::context::pem, error);
  if (!error && !tls.client_ca.empty()) {
    context.add_certificate_authority(buffer(tls.client_ca), error);
    context.set_verify_mode(boost::asio::ssl::verify_peer | boost::asio::ssl::verify_fail_if_no_peer_cert);
    const unsigned char id[] = "kinora";  // OpenSSL resumes sessions with client certificates only under a name
    SSL_CTX_set_session_id_context(context.native_handle(), id, sizeof(id) - 1);
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat("tls: ", error.message()));
  return std::optional<boost::asio::ssl::context>(std::move(context));
}

class AsioHttpServer : public HttpServer {
 public:
  AsioHttpServer(HttpServerOptions options, OriginCheck origins, TrustedProxies proxies,
                 std::optional<boost::asio::ssl::context> tls, ListeningSockets listening)
      : options_(std::move(options)),
        origins_(std::move(origins)),
        proxies_(std::move(proxies)),
        tls_(std::move(tls)),
        rate_(options_.max_requests_per_second, Clock::Steady()),
        listening_(std::move(listening)),
        port_(listening_.port()),
        context_{.parser = options_.parser,
                 .times = options_.times,
                 .origins = origins_,
                 .proxies = proxies_,
                 .rate = rate_,
                 .handler = options_.handler,
                 .problem_reply = options_.problem_reply,
                 .metrics = options_.metrics,
                 .tls = tls_ ? &*tls_ : nullptr} {}
  // NOLINTNEXTLINE(bugprone-exception-escape): only std::bad_alloc, which ends the process anyway
  ~AsioHttpServer() override { Stop(absl::ZeroDuration()); }

  absl::Status Run() {
    for (const FileDescriptor& socket : listening_.sockets()) {
      const int own = fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);
      if (own < 0) return absl::ResourceExhaustedError("address: no file descriptor is left to listen with");
      auto& acceptor = acceptors_.emplace_back(std::make_unique<Acceptor>(strand_, own));
      Await(*acceptor);
    }
    for (int i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this] { io_.run(); });
    }
    return absl::OkStatus();
  }

  void Stop(absl::Duration grace) override {
    if (std::exchange(stopped_, true)) return;
    absl::Notification closed;  // no session begins afterwards, so that each one is told
    boost::asio::post(strand_, [this, &closed] {
      for (const auto& acceptor : acceptors_) acceptor->Close();
      closed.Notify();
    });
    if (!threads_.empty()) closed.WaitForNotification();  // it is empty if Run has failed
    listening_.Close();
    for (const auto& session : Sessions()) session->Drain();
    AwaitNoSession(grace);
    for (const auto& session : Sessions()) session->Close();
    AwaitNoSession(absl::InfiniteDuration());
    work_.reset();
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const override { return port_; }

 private:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  struct Acceptor {
    Acceptor(const Strand& strand, int fd) : descriptor(strand, fd), pause(strand) {}
    void Close() {
      closed = true;
      error_code ignored;
      descriptor.close(ignored);
      pause.cancel();
    }

    boost::asio::posix::stream_descriptor descriptor;
    boost::asio::steady_timer pause;
    bool closed = false;
  };

  void Await(Acceptor& acceptor) {
    acceptor.descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                   [this, &acceptor](const error_code& error) {
                                     if (!error && !acceptor.closed) Accept(acceptor);
                                   });
  }

  void Accept(Acceptor& acceptor) {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      SocketAddress peer;
      peer.size = sizeof(peer.storage);
      FileDescriptor accepted(
          accept4(acceptor.descriptor.native_handle(), peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted.ok()) {
        Admit(std::move(accepted), peer);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        acceptor.pause.expires_after(kPause);
        acceptor.pause.async_wait([this, &acceptor](const error_code&) {
          if (!acceptor.closed) Await(acceptor);
        });
        return;
      } else if (errno == EAGAIN) {
        break;
      }
    }
    Await(acceptor);
  }

  void Admit(FileDescriptor accepted, const SocketAddress& peer) {
    const std::string client = ClientAddress(peer);
    uint64_t number = 0;
    {
      absl::MutexLock lock(&mu_);
      const char* reason = static_cast<int>(sessions_.size()) >= options_.max_connections ? "full" : nullptr;
      const bool counts = !proxies_.Trusts(peer);  // a proxy's connections are those of many clients
      if (reason == nullptr && counts && per_client_[client] >= options_.max_connections_per_client) {
        reason = "client_full";
      }
      if (reason != nullptr) return Reject(reason, peer);
      per_client_[client] += 1;
      number = ++sessions_so_far_;
    }
    if (!peer.is_unix()) {
      const int on = 1;
      (void)setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    const std::string local_host = LocalHostOf(accepted.get());
    const boost::asio::generic::stream_protocol protocol(peer.storage.ss_family, peer.is_unix() ? 0 : IPPROTO_TCP);
    HttpSession::Socket socket(boost::asio::make_strand(io_), protocol, accepted.Release());
    // The deleter runs after everything that uses io_, so that Stop waits for it.
    const std::shared_ptr<HttpSession> session(new HttpSession(context_, std::move(socket), peer, local_host),
                                               [this, number](HttpSession* ended) {
                                                 const std::string of = ClientAddress(ended->peer());
                                                 delete ended;
                                                 Forget(number, of);
                                               });
    {
      absl::MutexLock lock(&mu_);
      sessions_.emplace(number, session);
      options_.metrics.http_connections.Set(static_cast<double>(sessions_.size()));
    }
    session->Start();
  }

  void Reject(const char* reason, const SocketAddress& peer) {
    options_.metrics.http_rejected_total.Add({{"reason", reason}}).Increment();
    const auto held_back = log_limit_.Admit();
    if (!held_back) return;
    Log(Severity::kWarning, "connections_refused",
        {{"field", "address"}, {"reason", reason}, {"count", *held_back + 1}, {"last_peer", peer.ToString()}});
  }

  void Forget(uint64_t session, const std::string& client) {
    absl::MutexLock lock(&mu_);
    sessions_.erase(session);
    const auto count = per_client_.find(client);
    if (--count->second == 0) per_client_.erase(count);
    options_.metrics.http_connections.Set(static_cast<double>(sessions_.size()));
  }

  std::vector<std::shared_ptr<HttpSession>> Sessions() {
    std::vector<std::shared_ptr<HttpSession>> sessions;
    absl::MutexLock lock(&mu_);
    for (const auto& [number, session] : sessions_) {
      if (auto held = session.lock()) sessions.push_back(std::move(held));
    }
    return sessions;
  }

  void AwaitNoSession(absl::Duration patience) {
    absl::MutexLock lock(&mu_);
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return sessions_.empty(); };
    mu_.AwaitWithTimeout(absl::Condition(&none), patience);
  }

  const HttpServerOptions options_;
  const OriginCheck origins_;
  const TrustedProxies proxies_;
  std::optional<boost::asio::ssl::context> tls_;
  RateLimit rate_;
  ListeningSockets listening_;
  const int port_;
  HttpSessionContext context_;
  LogLimit log_limit_{absl::Seconds(10), Clock::Steady()};
  bool stopped_ = false;

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  Strand strand_{io_.get_executor()};  // of the acceptors
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<std::thread> threads_;

  absl::Mutex mu_;
  uint64_t sessions_so_far_ ABSL_GUARDED_BY(mu_) = 0;
  // By number: a new session may have the address of one that is being forgotten.
  std::map<uint64_t, std::weak_ptr<HttpSession>> sessions_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> per_client_ ABSL_GUARDED_BY(mu_);  // connections
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  KINORA_ASSIGN_OR_RETURN(OriginCheck origins, OriginCheck::Make(options.hosts));
  KINORA_ASSIGN_OR_RETURN(TrustedProxies proxies, TrustedProxies::Parse(options.trusted_proxies));
  KINORA_ASSIGN_OR_RETURN(auto tls, MakeTls(options.tls));
  KINORA_ASSIGN_OR_RETURN(ListeningSockets listening,
                          options.listen_fds.empty()
                              ? ListeningSockets::Bind("address", options.address, options.local_only)
                              : ListeningSockets::Inherit("--listen-fd", options.listen_fds));
  auto server = std::make_unique<AsioHttpServer>(std::move(options), std::move(origins), std::move(proxies),
                                                 std::move(tls), std::move(listening));
  KINORA_RETURN_IF_ERROR(server->Run());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace kinora
