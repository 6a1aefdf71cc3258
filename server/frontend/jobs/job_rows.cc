#include "server/frontend/jobs/job_rows.h"

#include <google/protobuf/unknown_field_set.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr int kResumeField = 1000;  // a ResumeMark; Video never gets a field of this number

}  // namespace

absl::Status Damaged(const JobId& id) {
  return absl::DataLossError(
      absl::StrCat("the record of job \"", absl::CHexEscape(id), "\" is damaged; delete the job"));
}

std::string VideoColumn(const v1::Video& video, const std::optional<v1::ResumeMark>& resume) {
  std::string bytes = video.SerializeAsString();
  if (!resume) return bytes;
  google::protobuf::UnknownFieldSet more;
  more.AddLengthDelimited(kResumeField, resume->SerializeAsString());
  std::string tail;
  more.SerializeToString(&tail);
  return bytes + tail;
}

absl::StatusOr<VideoRow> ReadVideo(const JobId& id, const std::string& bytes, bool sound) {
  VideoRow row;
  if (!sound || !row.video.ParseFromString(bytes) || row.video.id() != id) return Damaged(id);
  google::protobuf::UnknownFieldSet& more = *v1::Video::GetReflection()->MutableUnknownFields(&row.video);
  for (int i = 0; i < more.field_count(); ++i) {
    const bool is_resume = more.field(i).number() == kResumeField &&
                           more.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED;
    if (!is_resume) continue;
    if (!row.resume.emplace().ParseFromString(more.field(i).length_delimited())) return Damaged(id);
  }
  more.DeleteByNumber(kResumeField);
  return row;
}

}  // namespace kinora
