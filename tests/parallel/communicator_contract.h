// Tests of the contract that all communicators share, independent of their kind of ranks and transport. A test program
// compiles communicator_contract.cc and specifies how to run its kind of ranks:
//   INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorContract,
//                            testing::Combine(testing::Values(ThreadRanks()), testing::Values(2, 4, 8)), ContractName);
#ifndef KINORA_TESTS_PARALLEL_COMMUNICATOR_CONTRACT_H_
#define KINORA_TESTS_PARALLEL_COMMUNICATOR_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/parallel/mesh.h"

namespace kinora {

// One rank's groups, stream, and memory that its collectives can access.
class ContractRank {
 public:
  ContractRank(const Mesh& mesh, Stream& stream, std::function<Tensor(DType dtype, int64_t elements)> reserve)
      : mesh_(mesh), stream_(stream), reserve_(std::move(reserve)) {}

  const Mesh& mesh() const { return mesh_; }
  Communicator& group() const { return mesh_.tokens(); }  // the group that most tests use
  Stream& stream() const { return stream_; }
  Tensor Reserve(DType dtype, int64_t elements) const { return reserve_(dtype, elements); }
  template <typename T>
  Tensor Put(const std::vector<T>& values) const {
    Tensor x = reserve_(DTypeOf<T>::value, static_cast<int64_t>(values.size()));
    stream_.CopyFromHost(values.data(), x);
    return x;
  }
  // Waits for the stream. Returns the values, or the stream's error.
  template <typename T>
  absl::StatusOr<std::vector<T>> Get(const Tensor& x) const {
    std::vector<T> values(x.elements());
    stream_.CopyToHost(x, values.data());
    KINORA_RETURN_IF_ERROR(stream_.Synchronize());
    return values;
  }

 private:
  const Mesh& mesh_;
  Stream& stream_;
  const std::function<Tensor(DType dtype, int64_t elements)> reserve_;
};

using ContractBody = std::function<absl::StatusOr<std::string>(const ContractRank& rank)>;

struct RanksKind {
  const char* name;
  bool processes;  // ranks are processes, so a signal can end one
  // Runs `body` on each rank of a mesh of that shape and returns the results in rank order. A rank that fails aborts
  // its groups.
  std::function<std::vector<absl::StatusOr<std::string>>(const MeshShape& shape, const ContractBody& body)> run;
};
inline void PrintTo(const RanksKind& kind, std::ostream* out) { *out << kind.name; }

// Converts values to the result of a body.
template <typename T>
absl::StatusOr<std::string> Bytes(const absl::StatusOr<std::vector<T>>& values) {
  if (!values.ok()) return values.status();
  return std::string(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(T));
}
template <typename T>
std::vector<T> Values(const absl::StatusOr<std::string>& bytes) {
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return {};
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

class CommunicatorContract : public testing::TestWithParam<std::tuple<RanksKind, int>> {
 protected:
  static const RanksKind& kind() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
  static std::vector<absl::StatusOr<std::string>> Run(const ContractBody& body) {
    return kind().run({.tokens = ranks()}, body);
  }
};

inline std::string ContractName(const testing::TestParamInfo<std::tuple<RanksKind, int>>& info) {
  return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
}

}  // namespace kinora

#endif  // KINORA_TESTS_PARALLEL_COMMUNICATOR_CONTRACT_H_
