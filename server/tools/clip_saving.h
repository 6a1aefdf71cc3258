// What follows the end of a job: its files come here, and are said.
#ifndef KINORA_SERVER_TOOLS_CLIP_SAVING_H_
#define KINORA_SERVER_TOOLS_CLIP_SAVING_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"
#include "server/tools/artifact_download.h"
#include "server/tools/clip_output.h"
#include "server/tools/connection.h"
#include "server/tools/progress_display.h"

namespace kinora {

struct SaveOptions {
  int n = 1;          // the job's number in its batch
  std::string only;   // the artifact of this id; empty: all
  bool json = false;  // errors as JSON
  DownloadPatience patience;
};

struct Saved {
  ExitStatus exit_status = kSuccess;  // other than kSuccess: already reported
  std::vector<std::string> paths{};   // of what was saved until then; "-": standard output
};

// Fetches the files of a job. After a halt: kUnreachable, and nothing is reported.
Saved SaveArtifacts(const Connection& connection, const v1::Video& video, ClipOutput& output,
                    const SaveOptions& options);

// "128x128, 1.04 s, seed 901932739, took 2.9 s"
std::string DescribeClip(const v1::Video& video);

// To standard output: the first file with its description, the others below it; with `json` the job and the paths in
// one line. To standard error if standard output has the clip.
void PrintSaved(const v1::Video& video, const std::vector<std::string>& paths, bool json);

// Says how the job ended, unless it was completed.
ExitStatus ReportOutcome(const v1::Video& video, ProgressDisplay& display);

// A call or a stream that failed; a job that was seen goes on.
ExitStatus ReportBroken(const grpc::Status& status, const v1::Video& video, bool json);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_CLIP_SAVING_H_
