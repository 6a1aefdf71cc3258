// `kinora generate --from ID`: repeats a job.
#ifndef KINORA_SERVER_CLIENT_REPEAT_H_
#define KINORA_SERVER_CLIENT_REPEAT_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Returns a request for the same clip: model, effective request and output of the job, without ttl, trace and
// thumbnail.
v1::CreateVideoRequest RequestOf(const v1::Video& earlier);

// Returns the differences of two ended jobs that can change the clip: "build 1.2 instead of 1.1". With the same build,
// device, precision, mesh and files, equal requests give equal bytes.
std::vector<std::string> DifferencesOf(const v1::Video& earlier, const v1::Video& now);

// One line: that the clips are identical, or what differs. `now` must have a clip.
std::string DescribeRepetition(const v1::Video& earlier, const v1::Video& now);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_REPEAT_H_
