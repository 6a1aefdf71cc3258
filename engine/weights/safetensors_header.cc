// Parses the JSON header as a stream of events: rejects repeated names and anything deeper than the format's three
// levels, and builds no tree of untrusted text.
#include <algorithm>
#include <limits>
#include <unordered_set>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/json_text.h"
#include "engine/weights/safetensors.h"

namespace kinora {
namespace {

// Limits per file; released files have 6,000 tensors. They keep the structures built from a 100 MB header of tiny
// entries below 100 MB.
constexpr size_t kMaxTensors = 100'000;
constexpr size_t kMaxMetadata = 10'000;

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr NamedDType kDTypes[] = {{"F32", DType::kF32},        {"F16", DType::kF16},        {"BF16", DType::kBF16},
                                  {"F8_E4M3", DType::kF8E4M3}, {"F8_E5M2", DType::kF8E5M2}, {"I64", DType::kI64},
                                  {"I32", DType::kI32},        {"U8", DType::kU8},          {"BOOL", DType::kBool},
                                  {"I8", DType::kU8}};  // bytes, some of which are texts

// One tensor's entry as written, before it is checked.
struct RawTensor {
  std::string name{}, dtype{};
  std::vector<uint64_t> shape{}, offsets{};
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::string error;

  bool start_object(std::size_t) override {
    if (place_ == Place::kBefore) return Go(Place::kTop);
    if (place_ == Place::kTop && !key_.empty()) {
      if (key_ == "__metadata__") return Go(Place::kMetadata);
      tensors.push_back({.name = key_});
      return Go(Place::kTensor);
    }
    return Fail("an object where none belongs");
  }
  bool end_object() override {
    if (place_ == Place::kTensor) return FinishTensor();
    return Go(place_ == Place::kTop ? Place::kAfter : Place::kTop);
  }
  bool key(std::string& name) override {
    if (place_ == Place::kTop) {
      if (!names_.insert(name).second) return Fail(Cat("\"", name, "\" occurs twice"));
      if (name.empty()) return Fail("a tensor without a name");
      if (names_.size() > kMaxTensors) return Fail(Cat("more than ", kMaxTensors, " tensors"));
    } else if (place_ == Place::kMetadata && metadata.contains(name)) {
      return Fail(Cat("__metadata__.", name, " occurs twice"));
    } else if (place_ == Place::kMetadata && metadata.size() >= kMaxMetadata) {
      return Fail(Cat("more than ", kMaxMetadata, " entries in __metadata__"));
    }
    (place_ == Place::kTop ? key_ : field_) = name;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor) return Fail("an array where none belongs");
    RawTensor& tensor = tensors.back();
    bool& seen = field_ == "shape" ? tensor.has_shape : tensor.has_offsets;
    if ((field_ != "shape" && field_ != "data_offsets") || seen) return Fail(Cat("unexpected field ", field_));
    seen = true;
    return Go(Place::kNumbers);
  }
  bool end_array() override { return Go(Place::kTensor); }
  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      metadata[field_] = value;
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype" || tensors.back().has_dtype)
      return Fail("a string where none belongs");
    tensors.back().dtype = value;
    return tensors.back().has_dtype = true;
  }
  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::kNumbers) return Fail("a number where none belongs");
    std::vector<uint64_t>& list = field_ == "shape" ? tensors.back().shape : tensors.back().offsets;
    if (list.size() >= 64) return Fail(Cat("too many numbers in ", field_));
    list.push_back(value);
    return true;
  }
  bool number_integer(int64_t value) override { return Fail(Cat("negative number ", value)); }
  bool number_float(double, const std::string& text) override { return Fail(Cat("not a whole number: ", text)); }
  bool boolean(bool) override { return Fail("a boolean where none belongs"); }
  bool null() override { return Fail("null where none belongs"); }
  bool binary(nlohmann::json::binary_t&) override { return Fail("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return Fail(Cat("not valid JSON at byte ", position));
  }

 private:
  enum class Place { kBefore, kTop, kMetadata, kTensor, kNumbers, kAfter };

  bool Go(Place place) {
    place_ = place;
    return true;
  }
  bool Fail(std::string_view what) {
    error =
        place_ == Place::kTensor || place_ == Place::kNumbers ? Cat("tensor ", key_, ": ", what) : std::string(what);
    return false;
  }
  bool FinishTensor() {
    const RawTensor& tensor = tensors.back();
    if (!tensor.has_dtype) return Fail("no dtype");
    if (!tensor.has_shape) return Fail("no shape");
    if (!tensor.has_offsets || tensor.offsets.size() != 2) return Fail("data_offsets must be two numbers");
    return Go(Place::kTop);
  }

  Place place_ = Place::kBefore;
  std::string key_, field_;
  std::unordered_set<std::string> names_;
};

absl::StatusOr<DType> ParseDType(std::string_view name) {
  for (const NamedDType& known : kDTypes) {
    if (known.name == name) return known.dtype;
  }
  return absl::InvalidArgumentError(
      Cat("dtype ", name, " is not supported; F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, U8, I8 and BOOL are"));
}

absl::StatusOr<TensorInfo> Check(RawTensor raw, int64_t data_bytes) {
  TensorInfo tensor{.name = std::move(raw.name)};
  const auto fail = [&](auto&&... what) {
    return absl::InvalidArgumentError(Cat("tensor ", tensor.name, ": ", what...));
  };
  absl::StatusOr<DType> dtype = ParseDType(raw.dtype);
  if (!dtype.ok()) return fail(dtype.status().message());
  tensor.dtype = *dtype;
  if (raw.shape.size() > Shape::kMaxRank) return fail(raw.shape.size(), " dimensions, at most ", Shape::kMaxRank);
  uint64_t bytes = static_cast<uint64_t>(DTypeSize(tensor.dtype));
  std::vector<int64_t> dims;
  for (uint64_t extent : raw.shape) {
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(bytes, extent, &bytes)) {
      return fail("shape [", absl::StrJoin(raw.shape, ", "), "] is beyond 64 bits");
    }
    dims.push_back(static_cast<int64_t>(extent));
  }
  const uint64_t begin = raw.offsets[0], end = raw.offsets[1];
  if (begin > end || end > static_cast<uint64_t>(data_bytes)) {
    return fail("data_offsets [", begin, ", ", end, "] do not lie in the ", data_bytes, " bytes of data");
  }
  if (end - begin != bytes) {
    return fail(end - begin, " bytes of data for ", raw.dtype, " [", absl::StrJoin(raw.shape, ", "), "], which takes ",
                bytes);
  }
  tensor.shape = Shape(dims);
  tensor.offset = static_cast<int64_t>(begin);
  tensor.bytes = static_cast<int64_t>(bytes);
  return tensor;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, int64_t data_bytes) {
  HeaderEvents events;
  if (!nlohmann::json::sax_parse(json, &events)) return absl::InvalidArgumentError(Cat("header: ", events.error));
  SafetensorsHeader header{.metadata = std::move(events.metadata)};
  header.tensors.reserve(events.tensors.size());
  for (RawTensor& raw : events.tensors) {
    KINORA_ASSIGN_OR_RETURN(TensorInfo tensor, Check(std::move(raw), data_bytes));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  int64_t end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.offset != end) {
      return absl::InvalidArgumentError(Cat("tensor ", tensor.name, ": starts at byte ", tensor.offset,
                                            tensor.offset < end ? ", inside the tensor" : ", a gap after what",
                                            " before it that ends at ", end));
    }
    end += tensor.bytes;
  }
  if (end != data_bytes) {
    return absl::InvalidArgumentError(Cat("tensors end at byte ", end, " of ", data_bytes, " bytes of data"));
  }
  return header;
}

std::string_view SafetensorsDTypeName(DType dtype) {
  for (const NamedDType& known : kDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

}  // namespace kinora
