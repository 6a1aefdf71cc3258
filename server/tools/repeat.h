// `kinora generate --from ID`: a job done once more.
#ifndef KINORA_SERVER_TOOLS_REPEAT_H_
#define KINORA_SERVER_TOOLS_REPEAT_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// What asks for the same clip: model, effective request and output of a job.
v1::CreateVideoRequest RequestOf(const v1::Video& earlier);

// Of two jobs that have ended, what may make the second's clip another: "build 1.2 instead of 1.1". Empty: on the same
// build, device, precision and arrangement of ranks, of the same files, a request makes the same bytes.
std::vector<std::string> DifferencesOf(const v1::Video& earlier, const v1::Video& now);

// One line about both: that the bytes are the same, or what differs. The second has a clip.
std::string DescribeRepetition(const v1::Video& earlier, const v1::Video& now);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_REPEAT_H_
