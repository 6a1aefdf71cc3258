// Links to a clip that work without an Authorization header, so that a browser's <video> can play it: GET
// /v1/videos/{id}/content?link=LINK. The gateway keeps no state, so a link carries its creator's right: base64url of
//
//   salt (32 bytes) | AES-256-GCM of (expiry (8 bytes: Unix seconds, big-endian) | authorization) | tag (16 bytes)
//
// The key and the nonce of each link are HKDF-SHA256 of the gateway's key and the link's random salt, so that any
// number of gateways may share a key for any time. The ID and the variant are authenticated, and not in the link.
#ifndef KINORA_SERVER_GATEWAY_VIDEO_LINK_H_
#define KINORA_SERVER_GATEWAY_VIDEO_LINK_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

inline constexpr absl::Duration kLinkLifetime = absl::Minutes(10);

inline constexpr char kDefaultVariant[] = "video";

// What a link opens: one artifact of one job.
struct LinkTarget {
  std::string video_id;
  std::string variant;  // kDefaultVariant, "thumbnail", …
};

struct VideoLink {
  std::string text;  // for a query: letters, digits, "-" and "_"
  absl::Time expiry;
};

class LinkSealer {  // thread-safe
 public:
  static constexpr size_t kKeyBytes = 32;  // at least

  // key: at least kKeyBytes, random. clock: the date.
  LinkSealer(std::string key, Clock& clock);

  // Makes a link that expires after kLinkLifetime. authorization: as the client sent it, at most 4096 bytes; "": none.
  VideoLink Seal(const LinkTarget& target, std::string_view authorization) const;

  // Returns the authorization. Unauthenticated, with a reason (ErrorInfo): LINK_EXPIRED; LINK_INVALID: it is damaged,
  // is for another target, or was sealed with another key. Each message says what to do.
  absl::StatusOr<std::string> Open(std::string_view text, const LinkTarget& target) const;

 private:
  const std::string key_;
  Clock& clock_;
};

// Reads a key that several gateways share; path "": draws one. Errors name the path: those of ReadRegularFile;
// FailedPrecondition: every user of the machine may read the file; InvalidArgument: it has fewer than kKeyBytes bytes.
absl::StatusOr<std::string> LoadLinkKey(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_VIDEO_LINK_H_
