// A resume point as the bytes of a file, with the fingerprint of its run. The file is in the safetensors format; its
// metadata holds the version of the format ("kinora_resume"), "stage", "step", and each part of the fingerprint as
// "run.PART".
#ifndef KINORA_ENGINE_PIPELINE_RESUME_FILE_H_
#define KINORA_ENGINE_PIPELINE_RESUME_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/pipeline/resume_point.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

// Everything that shapes a run's clip, as a text or a digest for each part ("mesh", "precision", "file
// ltx.safetensors"). A run can continue from a resume point only if both fingerprints are equal.
using RunFingerprint = std::map<std::string, std::string>;

struct ResumeFile {
  ResumePoint point;
  RunFingerprint fingerprint;
};

// CHECK-fails if a value's number of elements is not that of its shape.
std::string ToBytes(const ResumeFile& file);

// bytes: untrusted. Fails with InvalidArgument, naming the field or the value, unless they are exactly what ToBytes
// returns for some file, or would be if JSON had one way to write a header. Allocates no more than a few times their
// size. Whether the point fits a run: CheckResumePoint.
absl::StatusOr<ResumeFile> ParseResumeFile(std::string_view bytes);

// No resume point of the plan has a larger file.
int64_t MostResumeFileBytes(const RunPlan& plan);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_RESUME_FILE_H_
