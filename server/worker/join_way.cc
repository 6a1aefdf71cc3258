#include "server/worker/join_way.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/common/token_text.h"
#include "server/net/grpc_credentials.h"
#include "server/net/listen_address.h"

namespace kinora {
namespace {

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const auto named = [](absl::StatusCode code, absl::string_view message) {
    return absl::Status(code, absl::StrCat("token_file: ", message));
  };
  absl::StatusOr<RegularFile> file = ReadRegularFile(path);
  if (!file.ok()) return named(file.status().code(), file.status().message());
  if ((file->mode & 0007) != 0) {
    return named(absl::StatusCode::kInvalidArgument,
                 absl::StrCat(path, ": every user of this machine can read the token; run chmod o= on it"));
  }
  const auto tokens = ParseTokens(file->bytes);
  if (!tokens.ok()) {
    return named(absl::StatusCode::kInvalidArgument, absl::StrCat(path, ": ", std::string(tokens.status().message())));
  }
  if (tokens->size() != 1) {
    return named(absl::StatusCode::kInvalidArgument, absl::StrCat(path, ": must hold exactly one token, on one line"));
  }
  return tokens->front();
}

}  // namespace

absl::StatusOr<JoinTarget> JoinTargetOf(const v1::WorkerConfig& config) {
  JoinTarget target{.address = config.frontend()};
  if (!config.token_file().empty()) {
    KINORA_ASSIGN_OR_RETURN(target.token, ReadToken(config.token_file()));
  }
  if (!config.tls().ca_file().empty()) {
    KINORA_ASSIGN_OR_RETURN(target.credentials, MakeChannelCredentials(config.tls()));
  }
  return target;
}

absl::StatusOr<std::string> AddressToward(const std::string& frontend) {
  if (absl::StartsWith(frontend, "unix:")) return "127.0.0.1";
  const absl::StatusOr<std::vector<SocketAddress>> addresses = ResolveListenAddress(frontend);
  if (!addresses.ok())
    return absl::UnavailableError(absl::StrCat("frontend: ", std::string(addresses.status().message())));
  std::string why;
  for (const SocketAddress& one : *addresses) {
    const FileDescriptor way(socket(one.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    SocketAddress own;
    own.size = sizeof(own.storage);
    if (way.ok() && connect(way.get(), one.get(), one.size) == 0 && getsockname(way.get(), own.get(), &own.size) == 0) {
      std::string host = own.Host();
      if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
      return host;
    }
    why = std::strerror(errno);
  }
  return absl::UnavailableError(absl::StrCat("frontend: no route from this host to ", frontend, ": ", why));
}

}  // namespace kinora
