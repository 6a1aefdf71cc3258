#include "server/request/media_type.h"

#include <algorithm>
#include <array>

namespace kinora {
namespace {

using std::string_view;

constexpr std::array<string_view, 10> kMediaTypes = {"image/png", "image/jpeg", "image/webp", "video/mp4", "video/webm",
                                                     "audio/wav", "audio/flac", "audio/mpeg", "audio/aac", "audio/mp4"};

unsigned Byte(string_view head, size_t i) { return i < head.size() ? static_cast<unsigned char>(head[i]) : 0; }

// ISO/IEC 14496-12: the first box is "ftyp", and its major brand names the specification that the file follows.
string_view OfBrand(string_view brand) {
  for (const string_view sound : {"M4A ", "M4B "}) {
    if (brand == sound) return "audio/mp4";
  }
  for (const string_view movie : {"iso", "mp4", "avc1", "M4V", "dash", "MSNV", "f4v"}) {
    if (brand.starts_with(movie)) return "video/mp4";
  }
  return "";  // "qt  ", "heic", "avif", …
}

// An MPEG audio frame header: 11 sync bits, layer III, and a valid version, bit rate and sample rate (ISO/IEC 11172-3).
bool IsMpegFrame(string_view head) {
  const unsigned first = Byte(head, 1), second = Byte(head, 2);
  const unsigned bit_rate = second >> 4;
  return Byte(head, 0) == 0xff && (first & 0xe6) == 0xe2 && (first & 0x18) != 0x08 && bit_rate != 0 && bit_rate != 15 &&
         (second & 0x0c) != 0x0c;
}

// An ADTS header: 12 sync bits, layer 0 and a valid sample rate (ISO/IEC 13818-7).
bool IsAdtsFrame(string_view head) {
  return Byte(head, 0) == 0xff && (Byte(head, 1) & 0xf6) == 0xf0 && ((Byte(head, 2) >> 2) & 0x0f) < 13;
}

// Returns the type of the sound after an ID3v2 tag, which may precede any sound without a container; an MP3 file, the
// usual case, if the data after the tag is not recognised.
string_view AfterTag(string_view head) {
  size_t bytes = 0;
  for (size_t i = 6; i < 10; ++i) bytes = bytes << 7 | (Byte(head, i) & 0x7f);
  bytes += 10;
  if (bytes >= head.size()) return "audio/mpeg";
  const string_view after = MediaTypeOf(head.substr(bytes));
  return after.empty() ? "audio/mpeg" : after;
}

}  // namespace

string_view MediaTypeOf(string_view head) {
  head = head.substr(0, kMediaHead);
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (head.starts_with("RIFF") && head.size() >= 12) {
    if (head.substr(8, 4) == "WEBP") return "image/webp";
    if (head.substr(8, 4) == "WAVE") return "audio/wav";
  }
  if (head.size() >= 12 && head.substr(4, 4) == "ftyp") return OfBrand(head.substr(8, 4));
  if (head.starts_with("\x1a\x45\xdf\xa3")) {  // EBML; its DocType is within the first bytes
    return head.substr(0, 64).find("\x42\x82\x84webm") != string_view::npos ? "video/webm" : "";
  }
  if (head.starts_with("fLaC")) return "audio/flac";
  if (head.starts_with("ID3") && head.size() >= 10) return AfterTag(head);
  if (IsAdtsFrame(head)) return "audio/aac";
  if (IsMpegFrame(head)) return "audio/mpeg";
  return "";
}

bool IsMediaType(string_view media_type) {
  return std::find(kMediaTypes.begin(), kMediaTypes.end(), media_type) != kMediaTypes.end();
}

std::string MediaTypeNames() {
  std::string names;
  for (const string_view type : kMediaTypes) names.append(names.empty() ? "" : ", ").append(type);
  return names;
}

}  // namespace kinora
