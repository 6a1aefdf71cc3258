// From the fields of a request to CreateVideoRequest. The gateway maps names, types and lengths; every other rule
// (which sizes, steps, recipes … a model takes) is the frontend's, whose errors error_body.h translates back to these
// names.
//
// A file may be given, wherever a field names one, as
//   the file part of the field's own name      input_reference=@first.png in a multipart body
//   "part:NAME"                                another file part of the same body
//   "data:TYPE;base64,…"                       or percent-encoded (data_url.h)
//   "https://…"                                if FieldRules.url_hosts allows it
//   an input ID                                64 hexadecimal digits, of an input that is on the server already
#ifndef KINORA_SERVER_GATEWAY_CREATE_FIELDS_H_
#define KINORA_SERVER_GATEWAY_CREATE_FIELDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/gateway/input_url.h"
#include "server/gateway/request_fields.h"
#include "server/request/input_refs.h"

namespace kinora {

struct FieldRules {
  // Ignores unknown fields and fields of other servers (foreign_fields.h) instead of rejecting them.
  bool ignore_unknown = false;
  // Sound without a picture (/v1/audio/generate): sets audio_only.
  bool audio_only = false;
  // The hosts of URLs that may be fetched. Empty: none.
  std::vector<AllowedHost> url_hosts;
};

// An input that must be on the server before the request is sent.
struct PendingInput {
  enum class Source { kPart, kData, kUrl, kStored };
  std::string field;  // as the client wrote it, for errors: "input_reference", "conditions[1].image"
  InputUse use = InputUse::kImage;
  bool clip_or_image = false;  // the file's type decides which of the two it is
  Source source = Source::kPart;
  // The name of the file part, the decoded bytes, the URL, or the ID of an input whose type GetInput must tell.
  std::string value{};
  enum class Place { kCondition, kRetake, kAudio };
  Place place = Place::kCondition;
  int condition = 0;  // its index
};

struct CreateFields {
  v1::CreateVideoRequest request;  // request_id is empty unless a field `request_id` gives it
  std::vector<PendingInput> inputs;
  // With ignore_unknown, the first of the ignored names; printable ASCII, so that a header can list them.
  std::vector<std::string> ignored;
};

// model: the one that `fields.model()` names, or the server's default. Fails with InvalidFields (status_details.h) for
// all wrong fields at once.
//   seconds × fps becomes the nearest length that the recipe takes (a multiple of its frame_multiple, plus 1; of two
//   equally near ones, the shorter). num_frames is not rounded, and is used if both are given. The rate is `fps`, or
//   else the recipe's default.
absl::StatusOr<CreateFields> ToCreateRequest(const RequestFields& fields, const v1::ModelInfo& model,
                                             const FieldRules& rules);

// Puts an input that is now on the server in its place. InvalidArgument names the field if its type cannot be used
// there.
absl::Status SetInput(const PendingInput& pending, const v1::Input& input, v1::CreateVideoRequest& request);

// The names of all fields at the top level, in the order of the documentation.
std::vector<std::string_view> CreateFieldNames();

// Returns the request in the names of fields: an object that, sent again, gives the same request. generation:
// Video.effective. Values that are 0 or empty are left out.
nlohmann::ordered_json ToFields(const v1::Generation& generation, const v1::Output& output);

// The field that a gRPC client writes as `path` ("generation.video_guidance.cfg_scale"): "video_cfg_scale". Unknown
// paths lose only "generation.".
std::string FieldOfPath(std::string_view path);

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_CREATE_FIELDS_H_
