// Reads the body of a request that makes a clip or an estimate: a JSON object, or multipart/form-data with files. Text
// is kept in memory, files in scratch_folder.
//
// What counts against body_memory for B bytes of text: the buffer of what arrives, at most B + 1 MiB, twice while it
// grows; then 4·B while it is parsed, since the parser keeps two copies beside the text and the values; then 2·B for
// the values and the request that is made of them.
#ifndef KINORA_SERVER_GATEWAY_CREATE_BODY_H_
#define KINORA_SERVER_GATEWAY_CREATE_BODY_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gateway/body_text.h"
#include "server/gateway/byte_budget.h"
#include "server/gateway/handlers.h"
#include "server/gateway/http_exchange.h"
#include "server/gateway/multipart_reader.h"
#include "server/gateway/request_fields.h"
#include "server/gateway/spool_file.h"

namespace kinora {

// ResourceExhausted with RetryInfo: "other requests use all of this server's WHAT".
absl::Status OthersUseAll(std::string_view what);

class CreateBody : public std::enable_shared_from_this<CreateBody> {
 public:
  using OnEnd = std::function<void(absl::Status)>;

  CreateBody(HandlerContext& context, std::shared_ptr<HttpExchange> exchange);

  // Calls back once, with: InvalidArgument (MALFORMED_BODY, BODY_TOO_LARGE, or a wrong field); ResourceExhausted with
  // RetryInfo, if other requests use all the memory or scratch space.
  void Read(OnEnd on_end);

  // After on_end was OK.
  const RequestFields& fields() const { return *fields_; }
  // Takes the memory that making a request of the fields needs for a moment. Fails as Read does.
  absl::Status TakeScratch(ByteBudget::Share& memory) const;
  // By the name of the part.
  const std::map<std::string, std::shared_ptr<SpoolFile>>& files() const { return files_; }

 private:
  absl::Status Begin();
  void ReadNext(OnEnd on_end);  // not kept here: it may hold this object
  absl::Status Take(std::string_view piece);
  absl::Status Finish();
  absl::Status OnPart(const PartHeader& header);
  absl::Status OnData(std::string_view data);
  absl::Status OnPartEnd();
  absl::Status OnText(std::string_view data);

  HandlerContext& context_;
  const std::shared_ptr<HttpExchange> exchange_;
  ByteBudget::Share memory_, scratch_;  // of the values; of the files
  std::optional<RequestFields> fields_;
  std::optional<MultipartReader> multipart_;  // absent: JSON
  BodyText text_;                             // the JSON body, or the present text part
  int64_t text_bytes_ = 0;                    // of the whole body
  std::string part_;                          // the name of the present part
  std::shared_ptr<SpoolFile> file_;           // the present part, if it is a file
  std::map<std::string, std::shared_ptr<SpoolFile>> files_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_CREATE_BODY_H_
