#include "server/frontend/jobs/job_listing.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/job_rows.h"
#include "server/frontend/jobs/prompt_words.h"

namespace kinora {
namespace {

constexpr int64_t kMostSearched = 1000;  // records searched for labels or words per page

// U+10FFFF, the last character: appended to a prefix, it sorts after all texts with that prefix.
constexpr char kBehindAll[] = "\xf4\x8f\xbf\xbf";

v1::Video DamagedVideo(const JobId& id) {
  v1::Video video;
  video.set_id(absl::CHexEscape(id));  // valid text for any bytes
  video.set_state(v1::Video::FAILED);
  *video.mutable_error() = ToRpcStatus(Damaged(id));
  return video;
}

const char* TokenPrefix(bool ascending) { return ascending ? "after-" : "before-"; }

absl::StatusOr<int64_t> ParsePageToken(const std::string& token, bool ascending) {
  int64_t ordinal = 0;
  absl::string_view digits = token;
  if (!absl::ConsumePrefix(&digits, TokenPrefix(ascending)) || !absl::SimpleAtoi(digits, &ordinal) || ordinal <= 0) {
    return InvalidField("page_token", "not returned by ListVideos for a listing in this order");
  }
  return ordinal;
}

bool HasLabels(const v1::Video& video, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto it = video.labels().find(label.first);
    return it != video.labels().end() && it->second == label.second;
  });
}

}  // namespace

absl::StatusOr<int64_t> PageBegin(const ListOptions& options, std::optional<int64_t> after) {
  if (after.has_value()) return *after;
  if (!options.page_token.empty()) return ParsePageToken(options.page_token, options.ascending);
  return options.ascending ? 0 : std::numeric_limits<int64_t>::max();
}

std::string PageToken(bool ascending, int64_t ordinal) { return absl::StrCat(TokenPrefix(ascending), ordinal); }

bool IsSearchedFor(const v1::Video& video, const ListOptions& options) {
  return HasLabels(video, options.labels) && HasWords(video.effective().prompt(), options.words);
}

// Texts are compared byte by byte. The + in +ordinal keeps SQLite from scanning the table in order of ordinals.
// Unfinished jobs have their own index, so that listing them does not read all jobs.
#define KINORA_LIST_IN_ORDER(where, ordinal, after, order)              \
  "SELECT ordinal, video, id, " KINORA_JOB_IS_SOUND " FROM jobs " where \
  " hidden = 0 AND (?2 >> state) & 1 AND " ordinal after " ?1 ORDER BY " ordinal order " LIMIT ?5"
#define KINORA_LIST(ascending, where, ordinal)                      \
  ((ascending) ? KINORA_LIST_IN_ORDER(where, ordinal, " >", " ASC") \
               : KINORA_LIST_IN_ORDER(where, ordinal, " <", " DESC"))

const char* ListStatement(const ListQuery& query) {
  if (query.by_prefix) return KINORA_LIST(query.ascending, "WHERE id >= ?3 AND id < ?4 AND", "+ordinal");
  if (query.unfinished) {
    return KINORA_LIST(query.ascending, "INDEXED BY jobs_unfinished WHERE state < 4 AND", "ordinal");
  }
  return KINORA_LIST(query.ascending, "WHERE", "ordinal");
}

int64_t WantedStates(const ListOptions& options) {
  int64_t wanted = options.states.empty() ? -1 : 0;
  for (const v1::Video::State state : options.states) wanted |= int64_t{1} << state;
  return wanted;
}

ListQuery QueryOf(const ListOptions& options) {
  const int64_t wanted = WantedStates(options);
  return {.by_prefix = !options.id_prefix.empty(),
          .unfinished = wanted >= 0 && wanted < int64_t{1} << v1::Video::COMPLETED,  // the first terminal state
          .ascending = options.ascending};
}

std::string BehindAllWith(const std::string& prefix) { return absl::StrCat(prefix, kBehindAll); }

JobPageBuilder::JobPageBuilder(const ListOptions& options)
    : options_(options),
      searched_(options.labels.empty() && options.words.empty() ? options.page_size : kMostSearched) {}

bool JobPageBuilder::Add(int64_t ordinal, const JobId& id, const std::string& video, bool sound) {
  if (std::ssize(page_.videos) == options_.page_size || rows_++ == searched_ || bytes_ > kMaxPageBytes) {
    page_.next_page_token = PageToken(options_.ascending, last_);
    return false;
  }
  last_ = ordinal;
  absl::StatusOr<VideoRow> read = ReadVideo(id, video, sound);
  v1::Video parsed = read.ok() ? std::move(read->video) : DamagedVideo(id);
  if (!IsSearchedFor(parsed, options_)) return true;
  bytes_ += video.size();
  page_.videos.push_back(std::move(parsed));
  return true;
}

absl::StatusOr<JobPage> ListJobs(Database& database, const ListOptions& options, std::optional<int64_t> after) {
  KINORA_ASSIGN_OR_RETURN(const int64_t begin, PageBegin(options, after));
  KINORA_ASSIGN_OR_RETURN(Statement select, database.Prepare(ListStatement(QueryOf(options))));
  JobPageBuilder page(options);
  select.Bind(begin).Bind(WantedStates(options)).Bind(options.id_prefix).Bind(BehindAllWith(options.id_prefix));
  select.Bind(page.limit());
  while (true) {
    KINORA_ASSIGN_OR_RETURN(const bool row, select.Row());
    if (!row || !page.Add(select.Int(0), select.Bytes(2), select.Bytes(1), select.Int(3) != 0)) return page.Take();
  }
}

}  // namespace kinora
