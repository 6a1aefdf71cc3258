#include "engine/ops/cuda/product_tuning.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace kinora {
namespace {

constexpr uintmax_t kMaxFileBytes = 8 << 20;  // a longer file is not ours

// FNV-1a, to detect lines that were cut off or changed.
std::string Checksum(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return absl::StrFormat("%016x", hash);
}

std::string ToText(const cublaslt::Algorithm& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm.data) absl::StrAppend(&text, absl::StrFormat("%016x", word));
  return text;
}

std::optional<cublaslt::Algorithm> FromText(const std::string& text) {
  cublaslt::Algorithm algorithm;
  if (text.size() != 16 * std::size(algorithm.data)) return std::nullopt;
  for (size_t i = 0; i < std::size(algorithm.data); ++i) {
    if (!absl::SimpleHexAtoi(text.substr(16 * i, 16), &algorithm.data[i])) return std::nullopt;
  }
  return algorithm;
}

}  // namespace

std::string ProductProblem::ToString() const {
  return absl::StrCat(std::string(DTypeName(in)), ">", std::string(DTypeName(out)), ":", m, "x", n, "x", k, "*", batch,
                      ":a", a_stride, a_transposed ? "t" : "n", a_batch, "/", a_alignment, ":b", b_stride,
                      b_transposed ? "t" : "n", b_batch, "/", b_alignment, ":d", d_stride, "n", d_batch, "/",
                      d_alignment, add ? ":add" : "", bias ? ":bias" : "", gelu ? ":gelu" : "");
}

ProductTuning::ProductTuning(std::string file, std::string identity)
    : file_(std::move(file)), identity_(std::move(identity)), lines_(Read(file_)) {}

ProductTuning::Lines ProductTuning::Read(const std::string& file) {
  Lines lines;
  std::error_code error;
  if (const uintmax_t bytes = std::filesystem::file_size(file, error); error || bytes > kMaxFileBytes) return lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    if (parts.size() != 4 || !FromText(parts[2]).has_value()) continue;
    const std::string key = absl::StrCat(parts[0], "\t", parts[1]);
    if (Checksum(absl::StrCat(key, "\t", parts[2])) == parts[3]) lines[key] = parts[2];
  }
  return lines;
}

std::optional<cublaslt::Algorithm> ProductTuning::Find(const ProductProblem& problem) const {
  const auto found = lines_.find(Key(problem));
  return found == lines_.end() ? std::nullopt : FromText(found->second);
}

void ProductTuning::Keep(const ProductProblem& problem, const cublaslt::Algorithm& algorithm) {
  for (auto& [key, text] : Read(file_)) lines_.try_emplace(key, text);
  lines_[Key(problem)] = ToText(algorithm);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
  static std::atomic<int> count = 0;
  const std::string temporary = absl::StrCat(file_, ".", getpid(), ".", count++, ".new");
  {
    std::ofstream out(temporary, std::ios::trunc);
    for (const auto& [key, text] : lines_) {
      const std::string line = absl::StrCat(key, "\t", text);
      out << line << '\t' << Checksum(line) << '\n';
    }
    out.flush();
    if (!out) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(temporary, file_, error);
  if (error) std::filesystem::remove(temporary, error);  // the next run measures again
}

}  // namespace kinora
