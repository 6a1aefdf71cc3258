// Reads back what ZipWriter writes: stored members, one after the other.
#ifndef KINORA_ENGINE_MEDIA_ZIP_READER_H_
#define KINORA_ENGINE_MEDIA_ZIP_READER_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace kinora {

// `take` gets each member in the file's order, its content whole; an error of it ends the reading. NotFound: no such
// file. DataLoss: a member that is cut off, compressed or of unknown size. Checksums are not looked at.
absl::Status ReadZip(const std::string& path,
                     absl::FunctionRef<absl::Status(std::string_view name, std::string_view content)> take);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_ZIP_READER_H_
