#include "engine/media/zip_writer.h"

extern "C" {
#include <libavutil/crc.h>
}

#include <concepts>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr uint16_t kVersion = 20, kVersionZip64 = 45;
constexpr uint16_t kDate1980 = 0x21;  // 1 January: day 1, month 1, year 0
constexpr uint16_t kUtf8Names = 0x800;

template <std::unsigned_integral... T>
void Append(std::string& out, T... values) {  // little-endian on every machine
  const auto one = [&out](auto value) {
    for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  };
  (one(values), ...);
}

}  // namespace

uint32_t Crc32(std::string_view bytes) {
  const AVCRC* table = av_crc_get_table(AV_CRC_32_IEEE_LE);
  return av_crc(table, 0xffffffff, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) ^ 0xffffffff;
}

absl::StatusOr<ZipWriter> ZipWriter::Create(std::string path, uint64_t zip64_from) {
  KINORA_ASSIGN_OR_RETURN(auto file, OutputFile::Create(std::move(path)));
  return ZipWriter(std::move(file), zip64_from);
}

absl::Status ZipWriter::Add(std::string_view name, std::string_view content) {
  KINORA_CHECK(content.size() < 0xffffffff && name.size() < 0xffff);
  const Member member{std::string(name), Crc32(content), static_cast<uint32_t>(content.size()),
                      static_cast<uint64_t>(file_->size())};
  std::string header;
  Append(header, uint32_t{0x04034b50}, kVersion, kUtf8Names, uint16_t{0}, uint16_t{0}, kDate1980, member.crc,
         member.size, member.size, static_cast<uint16_t>(name.size()), uint16_t{0});
  header.append(name);
  members_.push_back(member);
  KINORA_RETURN_IF_ERROR(file_->Write(header));
  return file_->Write(content);
}

void ZipWriter::AppendDirectoryEntry(const Member& member, std::string& out) const {
  const bool zip64 = member.offset >= zip64_from_;
  const uint16_t version = zip64 ? kVersionZip64 : kVersion;
  Append(out, uint32_t{0x02014b50}, version, version, kUtf8Names, uint16_t{0}, uint16_t{0}, kDate1980, member.crc,
         member.size, member.size, static_cast<uint16_t>(member.name.size()), static_cast<uint16_t>(zip64 ? 12 : 0));
  Append(out, uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0},
         zip64 ? uint32_t{0xffffffff} : static_cast<uint32_t>(member.offset));
  out.append(member.name);
  if (zip64) Append(out, uint16_t{1}, uint16_t{8}, member.offset);
}

absl::Status ZipWriter::Finish() {
  const auto start = static_cast<uint64_t>(file_->size());
  std::string out;
  for (const Member& member : members_) AppendDirectoryEntry(member, out);
  const uint64_t bytes = out.size(), count = members_.size();
  const bool zip64 = start + bytes >= zip64_from_ || count >= std::min<uint64_t>(zip64_from_, 0xffff);
  if (zip64) {
    Append(out, uint32_t{0x06064b50}, uint64_t{44}, kVersionZip64, kVersionZip64, uint32_t{0}, uint32_t{0}, count,
           count, bytes, start);
    Append(out, uint32_t{0x07064b50}, uint32_t{0}, start + bytes, uint32_t{1});
  }
  const auto count16 = static_cast<uint16_t>(zip64 ? 0xffff : count);
  Append(out, uint32_t{0x06054b50}, uint16_t{0}, uint16_t{0}, count16, count16,
         zip64 ? uint32_t{0xffffffff} : static_cast<uint32_t>(bytes),
         zip64 ? uint32_t{0xffffffff} : static_cast<uint32_t>(start), uint16_t{0});
  KINORA_RETURN_IF_ERROR(file_->Write(out));
  return file_->Commit();
}

}  // namespace kinora
