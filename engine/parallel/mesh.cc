#include "engine/parallel/mesh.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/single_communicator.h"

namespace kinora {

std::string MeshShape::ToString() const {
  if (ranks() == 1) return "1 rank";
  std::vector<std::string> parts;
  if (guidance > 1) parts.push_back(absl::StrCat("guidance=", guidance));
  if (tokens > 1) parts.push_back(absl::StrCat("tokens=", tokens));
  if (tensor > 1) parts.push_back(absl::StrCat("tensor=", tensor));
  return absl::StrJoin(parts, ",");
}

absl::StatusOr<MeshShape> MeshShape::Parse(const std::string& text) {
  MeshShape shape;
  if (text.empty()) return shape;
  std::set<std::string> named;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> axis = absl::StrSplit(part, absl::MaxSplits('=', 1));
    int* size = axis.first == "tokens"     ? &shape.tokens
                : axis.first == "guidance" ? &shape.guidance
                : axis.first == "tensor"   ? &shape.tensor
                                           : nullptr;
    if (size == nullptr || !absl::SimpleAtoi(axis.second, size)) {
      return absl::InvalidArgumentError(absl::StrCat("tokens=N, guidance=N or tensor=N is needed, not \"", part, "\""));
    }
    if (!named.insert(axis.first).second) {
      return absl::InvalidArgumentError(absl::StrCat(axis.first, " is given twice in \"", text, "\""));
    }
  }
  if (absl::Status status = shape.Validate(); !status.ok()) return status;
  return shape;
}

std::vector<std::string> MeshShape::Of(int ranks) {
  std::vector<std::string> shapes;
  for (const int guidance : {1, 2, 4}) {
    for (const int tokens : {1, 2, 4, 8}) {
      const MeshShape shape{.guidance = guidance, .tokens = tokens, .tensor = ranks / (guidance * tokens)};
      if (shape.ranks() == ranks && shape.Validate().ok()) shapes.push_back(shape.ToString());
    }
  }
  return shapes;
}

absl::Status MeshShape::Validate() const {
  constexpr int kMostTensorRanks = 64;
  if (guidance != 1 && guidance != 2 && guidance != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("guidance=", guidance, ": the guidance ranks of a group are 1, 2 or 4"));
  }
  if (tokens != 1 && tokens != 2 && tokens != 4 && tokens != 8) {
    return absl::InvalidArgumentError(absl::StrCat("tokens=", tokens, ": the token ranks of a group are 1, 2, 4 or 8"));
  }
  if (tensor < 1 || tensor > kMostTensorRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor=", tensor, ": the tensor ranks of a group are 1 to ", kMostTensorRanks));
  }
  return absl::OkStatus();
}

Mesh::Part Mesh::TensorPart(int64_t extent) const {
  const int64_t size = tensor_->size(), rank = tensor_->rank();
  KINORA_CHECK(extent % size == 0) << extent << " over " << size << " ranks";
  return {extent / size * rank, extent / size * (rank + 1)};
}

const Mesh* Mesh::Folded(int factor) const {
  for (const auto& mesh : folded_) {
    if (mesh->shape().guidance * factor == shape_.guidance) return mesh.get();
  }
  return nullptr;
}

void Mesh::ForEachGroup(absl::FunctionRef<void(MeshAxis axis, Communicator& group)> f) const {
  for (int axis = 0; axis < kMeshAxes; ++axis) f(static_cast<MeshAxis>(axis), group(static_cast<MeshAxis>(axis)));
  for (const auto& mesh : folded_) {
    f(MeshAxis::kTokens, mesh->tokens());
    f(MeshAxis::kGuidance, mesh->guidance());
  }
}

void Mesh::Abort() const {
  ForEachGroup([](MeshAxis, Communicator& group) { group.Abort(); });
}

double Mesh::WaitSeconds() const {
  double seconds = 0;
  ForEachGroup([&](MeshAxis, Communicator& group) { seconds += group.wait_seconds(); });
  return seconds;
}

void Mesh::Observe(CollectiveObserver& observer, const Clock& clock) const {
  ForEachGroup([&](MeshAxis, Communicator& group) {
    if (group.size() > 1) group.Observe(observer, clock);
  });
}

bool Mesh::Has(MeshAxis axis) const {
  bool has = false;
  ForEachGroup([&](MeshAxis of, Communicator& group) { has |= of == axis && group.size() > 1; });
  return has;
}

CollectiveCounts Mesh::Counts(MeshAxis axis) const {
  CollectiveCounts all{};
  ForEachGroup([&](MeshAxis of, Communicator& group) {
    for (int op = 0; op < kCollectives && of == axis; ++op) {
      all[op].calls += group.counts()[op].calls;
      all[op].bytes += group.counts()[op].bytes;
    }
  });
  return all;
}

Communicator& Mesh::group(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kTensor:
      return *tensor_;
    case MeshAxis::kTokens:
      return *tokens_;
    case MeshAxis::kGuidance:
      return *guidance_;
    case MeshAxis::kWorld:
      break;
  }
  return *world_;
}

absl::StatusOr<std::unique_ptr<Mesh>> MakeMesh(const MeshShape& shape, int rank, const MakeCommunicator& make) {
  KINORA_CHECK(rank >= 0 && rank < shape.ranks()) << rank << " of " << shape.ToString();
  // rank = (guidance · tokens + token) · tensor + tensor rank, so the members of a group are `stride` apart.
  const auto group = [&](MeshAxis axis, int size, int stride) -> absl::StatusOr<std::shared_ptr<Communicator>> {
    if (size == 1) return std::make_unique<SingleCommunicator>();
    const int own = rank / stride % size;
    std::vector<int> members;
    members.reserve(size);
    for (int i = 0; i < size; ++i) members.push_back(rank + (i - own) * stride);
    absl::StatusOr<std::unique_ptr<Communicator>> made = make(axis, members, own);
    if (made.ok()) (*made)->set_axis(axis);
    return made;
  };
  KINORA_ASSIGN_OR_RETURN(auto tensor, group(MeshAxis::kTensor, shape.tensor, 1));
  const auto tokens_of = [&](const MeshShape& s) { return group(MeshAxis::kTokens, s.tokens, s.tensor); };
  const auto guidance_of = [&](const MeshShape& s) {
    return group(MeshAxis::kGuidance, s.guidance, s.tensor * s.tokens);
  };
  KINORA_ASSIGN_OR_RETURN(auto tokens, tokens_of(shape));
  KINORA_ASSIGN_OR_RETURN(auto guidance, guidance_of(shape));
  KINORA_ASSIGN_OR_RETURN(auto world, group(MeshAxis::kWorld, shape.ranks(), 1));
  std::vector<std::unique_ptr<Mesh>> folded;
  for (const int factor : {2, 4}) {
    const MeshShape to{.guidance = shape.guidance / factor, .tokens = shape.tokens * factor, .tensor = shape.tensor};
    if (shape.guidance % factor != 0 || !to.Validate().ok()) continue;
    KINORA_ASSIGN_OR_RETURN(auto its_tokens, tokens_of(to));
    KINORA_ASSIGN_OR_RETURN(auto its_guidance, guidance_of(to));
    folded.push_back(std::make_unique<Mesh>(to, tensor, std::move(its_tokens), std::move(its_guidance), world));
  }
  return std::make_unique<Mesh>(shape, std::move(tensor), std::move(tokens), std::move(guidance), std::move(world),
                                std::move(folded));
}

std::unique_ptr<Mesh> Mesh::Single() {
  return std::make_unique<Mesh>(MeshShape{}, std::make_unique<SingleCommunicator>(),
                                std::make_unique<SingleCommunicator>(), std::make_unique<SingleCommunicator>(),
                                std::make_unique<SingleCommunicator>());
}

}  // namespace kinora
