// The names of a job's files, and which of them nobody will read any more.
#ifndef KINORA_SERVER_FRONTEND_JOBS_JOB_FILES_H_
#define KINORA_SERVER_FRONTEND_JOBS_JOB_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

// "<video id>/<attempt>/<artifact id>"
std::string ArtifactKey(const v1::Video& video, const v1::Artifact& artifact);

// keys: the job's files, listed after `video` and `resume` were read. Returns those of attempts that have ended but
// the artifacts and the resume point that the job's record names.
std::vector<std::string> UnusedFiles(const v1::Video& video, const std::optional<v1::ResumeMark>& resume,
                                     std::vector<std::string> keys);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_JOB_FILES_H_
