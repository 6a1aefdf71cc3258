// Prints messages as JSON, one object per line, or as text (for jobs: job_text.h).
#ifndef KINORA_SERVER_CLIENT_PRINTING_H_
#define KINORA_SERVER_CLIENT_PRINTING_H_

#include <string>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// proto3 JSON with original field names, defaults left out, no line break.
std::string ToJson(const google::protobuf::Message& message);
void PrintLine(const std::string& line);  // to standard output, flushed for readers of a pipe

std::string FormatEstimate(const v1::Estimate& estimate);
std::string FormatModel(const v1::ModelInfo& model);
std::string FormatGroup(const v1::WorkerGroup& group);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_PRINTING_H_
