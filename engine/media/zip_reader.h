// Reads archives of ZipWriter: stored members, one after the other.
#ifndef KINORA_ENGINE_MEDIA_ZIP_READER_H_
#define KINORA_ENGINE_MEDIA_ZIP_READER_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace kinora {

// Calls `take` for each member in file order, with its whole content. Stops if it fails. Fails with NotFound if the
// file cannot be opened, and with DataLoss if a member is cut off, compressed or of unknown size. Does not verify
// checksums.
absl::Status ReadZip(const std::string& path,
                     absl::FunctionRef<absl::Status(std::string_view name, std::string_view content)> take);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_ZIP_READER_H_
