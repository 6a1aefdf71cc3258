#include "server/common/build_version.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <prometheus/gauge.h>

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/cpu_path.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

// Adds `file` to the digest, its imports first, each file once.
void Digest(const google::protobuf::FileDescriptor& file, std::set<std::string>& seen, Sha256& digest) {
  if (!seen.insert(file.name()).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) Digest(*file.dependency(i), seen, digest);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  const std::string bytes = proto.SerializeAsString();
  digest.Update(absl::StrCat(bytes.size(), "\n"));
  digest.Update(bytes);
}

}  // namespace

const BuildIdentity& ThisBuild() {
  static const auto* const identity = [] {
    std::set<std::string> seen;
    Sha256 digest;
    Digest(*v1::Hello::descriptor()->file(), seen, digest);
    return new BuildIdentity{.commit = kBuildCommit, .protocol = absl::HexStringToBytes(digest.Hex())};
  }();
  return *identity;
}

void RegisterBuildInfo(prometheus::Registry& registry) {
  prometheus::BuildGauge()
      .Name("kinora_build_info")
      .Help("What this program was built from; always 1")
      .Register(registry)
      .Add({{"version", kBuildVersion},
            {"commit", kBuildCommit},
            {"backends", kBuildBackends},
            {"cpu_path", CpuPathName(ThisCpuPath())}})
      .Set(1);
}

}  // namespace kinora
