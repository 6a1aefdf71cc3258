// A ZIP archive of stored (uncompressed) members, according to PKWARE's APPNOTE 6.3, with ZIP64 records if the archive
// exceeds 4 GiB or 65,534 members. Dates are 1980-01-01, so equal members make equal archives.
#ifndef KINORA_ENGINE_MEDIA_ZIP_WRITER_H_
#define KINORA_ENGINE_MEDIA_ZIP_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/media/output_file.h"

namespace kinora {

uint32_t Crc32(std::string_view bytes);  // as in ZIP and PNG

class ZipWriter {
 public:
  // zip64_from: smallest offset and number of members for which ZIP64 is used; only tests lower it.
  static absl::StatusOr<ZipWriter> Create(std::string path, uint64_t zip64_from = 0xffffffff);

  absl::Status Add(std::string_view name, std::string_view content);  // content below 4 GiB
  absl::Status Finish();                                              // writes the directory, closes and renames

 private:
  struct Member {
    std::string name;
    uint32_t crc, size;
    uint64_t offset;
  };
  ZipWriter(std::unique_ptr<OutputFile> file, uint64_t zip64_from) : file_(std::move(file)), zip64_from_(zip64_from) {}
  void AppendDirectoryEntry(const Member& member, std::string& out) const;

  std::unique_ptr<OutputFile> file_;
  uint64_t zip64_from_;
  std::vector<Member> members_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_ZIP_WRITER_H_
