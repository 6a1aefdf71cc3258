#include "engine/media/zip_reader.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr uint32_t kMember = 0x04034b50;
constexpr uint32_t kDirectory = 0x02014b50;     // entry of the central directory
constexpr uint32_t kDirectoryEnd = 0x06054b50;  // without a member, the directory has no entry
constexpr size_t kMemberHeader = 30;            // of PKWARE's APPNOTE 4.3.7: a fixed part, then name and extra field

uint32_t LittleEndian(std::string_view bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

// Reads exactly `size` bytes. Allocates at most 1 MiB more than the file has.
bool ReadExactly(std::istream& in, size_t size, std::string& out) {
  constexpr size_t kPiece = 1 << 20;
  out.clear();
  while (out.size() < size) {
    const size_t had = out.size();
    out.resize(std::min(size, had + kPiece));
    if (!in.read(out.data() + had, static_cast<std::streamsize>(out.size() - had))) return false;
  }
  return true;
}

}  // namespace

absl::Status ReadZip(const std::string& path,
                     absl::FunctionRef<absl::Status(std::string_view name, std::string_view content)> take) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(path + ": cannot be read");
  std::string header, name, content;
  while (true) {
    if (!ReadExactly(in, 4, header)) return absl::DataLossError(path + ": ends before its directory");
    const uint32_t signature = LittleEndian(header, 0, 4);
    if (signature == kDirectory || signature == kDirectoryEnd) return absl::OkStatus();
    if (signature != kMember) return absl::DataLossError(absl::StrCat(path, ": is damaged after \"", name, "\""));
    std::string rest;
    if (!ReadExactly(in, kMemberHeader - 4, rest)) return absl::DataLossError(path + ": is cut off");
    header += rest;
    const uint32_t flags = LittleEndian(header, 6, 2), method = LittleEndian(header, 8, 2);
    const uint32_t size = LittleEndian(header, 22, 4);
    if (method != 0 || (flags & 8) != 0 || LittleEndian(header, 18, 4) != size) {
      return absl::DataLossError(path + ": has a member that is not stored as it is");
    }
    if (!ReadExactly(in, LittleEndian(header, 26, 2), name) || !ReadExactly(in, LittleEndian(header, 28, 2), rest) ||
        !ReadExactly(in, size, content)) {
      return absl::DataLossError(absl::StrCat(path, ": is cut off in ", name));
    }
    KINORA_RETURN_IF_ERROR(take(name, content));
  }
}

}  // namespace kinora
