// Bodies that an S3 server sends: each is read or rejected, and what is read of a listing has the form that is used.
#include <cstdint>
#include <string>

#include "engine/base/check.h"
#include "server/s3/s3_answers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  kinora::ParseS3Error(body);
  kinora::ParseUploadId(body).status().IgnoreError();
  const auto keys = kinora::ParseAssumedRole(body);
  KINORA_CHECK(!keys.ok() || (!keys->id.empty() && !keys->secret.empty() && !keys->session_token.empty()));
  const auto listing = kinora::ParseListing(body);
  KINORA_CHECK(!listing.ok() || kinora::ParseS3Error(body).code.empty()) << "no body is both";
  const std::string completion = kinora::CompletionBody({body});
  KINORA_CHECK(kinora::ParseS3Error(completion).code.empty());
  return 0;
}
