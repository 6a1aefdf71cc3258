#include "server/gateway/chunk_decoder.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace kinora {
namespace {

constexpr size_t kMostDigits = 12;  // 256 TiB

int HexValue(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

}  // namespace

// A line ends with CRLF and holds no other control character than a tab.
ChunkDecoder::Line ChunkDecoder::TakeLine(std::string_view& input, std::string_view& line) {
  for (size_t i = 0; i < input.size(); ++i) {
    if (input[i] == '\r') {
      if (i + 1 == input.size()) return Line::kIncomplete;
      if (input[i + 1] != '\n') return Line::kMalformed;
      line = input.substr(0, i);
      input.remove_prefix(i + 2);
      return Line::kTaken;
    }
    const bool control = absl::ascii_iscntrl(static_cast<unsigned char>(input[i])) && input[i] != '\t';
    if (control || i == kLongestLine) return Line::kMalformed;
  }
  return Line::kIncomplete;
}

bool ChunkDecoder::OnSize(std::string_view line) {
  size_t digits = 0;
  left_ = 0;
  while (digits < line.size() && absl::ascii_isxdigit(static_cast<unsigned char>(line[digits]))) {
    left_ = left_ * 16 + static_cast<uint64_t>(HexValue(line[digits]));
    if (++digits > kMostDigits) return false;
  }
  if (digits == 0) return false;
  const size_t extension = line.find_first_not_of(" \t", digits);
  if (extension != std::string_view::npos && line[extension] != ';') return false;
  if (extension == std::string_view::npos && digits < line.size()) return false;  // blanks, and nothing after them
  state_ = left_ == 0 ? State::kTrailer : State::kData;
  return true;
}

bool ChunkDecoder::OnLine(std::string_view line) {
  if (state_ == State::kSize) return OnSize(line);
  if (state_ == State::kDataEnd) {
    state_ = State::kSize;
    return line.empty();
  }
  if (line.empty()) state_ = State::kEnd;
  trailers_ += 1;
  return trailers_ <= kMostTrailerLines + 1;
}

bool ChunkDecoder::Decode(std::string& input, size_t most, std::string& piece) {
  std::string_view rest = input, line;
  Line taken = Line::kTaken;
  while (taken == Line::kTaken && state_ != State::kEnd) {
    if (state_ == State::kData) {
      const size_t count = static_cast<size_t>(std::min<uint64_t>({left_, rest.size(), most}));
      if (count == 0) break;
      piece.append(rest.substr(0, count));
      rest.remove_prefix(count);
      most -= count;
      left_ -= count;
      if (left_ == 0) state_ = State::kDataEnd;
      continue;
    }
    taken = TakeLine(rest, line);
    if (taken != Line::kTaken) break;
    if (!OnLine(line)) return false;
  }
  input.erase(0, input.size() - rest.size());
  return taken != Line::kMalformed;
}

}  // namespace kinora
