#include "server/s3/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/uninterrupted.h"

namespace kinora {
namespace {

constexpr size_t kMostIdle = 32;  // connections that are kept
constexpr char kUserAgent[] = "kinora";

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Fields = std::unique_ptr<curl_slist, FreeList>;

Fields FieldsOf(const HttpRequest& request) {
  // Without a value: libcurl does not add its own.
  std::vector<std::string> lines = {"Expect:", "Accept:", "Transfer-Encoding:"};
  bool typed = false;
  for (const auto& [name, value] : request.headers) {
    typed |= name == "content-type";
    lines.push_back(absl::StrCat(name, ": ", value));
  }
  if (!typed) lines.emplace_back("Content-Type:");
  curl_slist* list = nullptr;
  for (const std::string& line : lines) list = curl_slist_append(list, line.c_str());
  return Fields(list);
}

}  // namespace

std::string HttpReply::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

// One connection's requests, one after another.
class HttpClient::Handle {
 public:
  Handle() : easy_(curl_easy_init()) { KINORA_CHECK(easy_ != nullptr); }
  ~Handle() { curl_easy_cleanup(easy_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  absl::StatusOr<HttpReply> Send(const HttpRequest& request, const std::string& ca_file,
                                 const std::atomic<bool>& stopped) {
    request_ = &request;
    stopped_ = &stopped;
    reply_ = HttpReply();
    sent_ = 0;
    too_long_ = false;
    curl_easy_reset(easy_);  // keeps the connection
    SetRules(ca_file);
    const Fields fields = FieldsOf(request);
    Set(CURLOPT_HTTPHEADER, fields.get());
    SetMethod();
    const CURLcode code = curl_easy_perform(easy_);
    if (stopped) return absl::CancelledError("this process is stopping");
    if (too_long_) {
      return absl::UnavailableError(absl::StrCat("the reply has more than ", request.most_reply_bytes, " bytes"));
    }
    if (code != CURLE_OK) return absl::UnavailableError(curl_easy_strerror(code));
    long status = 0;  // NOLINT: libcurl's type
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    reply_.status = static_cast<int>(status);
    return std::move(reply_);
  }

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(easy_, option, value);
    KINORA_CHECK(code == CURLE_OK) << option << ": " << curl_easy_strerror(code);
  }

  void SetRules(const std::string& ca_file) {
    Set(CURLOPT_URL, request_->url.c_str());
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
    Set(CURLOPT_PATH_AS_IS, 1L);
    Set(CURLOPT_HTTP_VERSION, int64_t{CURL_HTTP_VERSION_1_1});
    Set(CURLOPT_SSLVERSION, int64_t{CURL_SSLVERSION_TLSv1_2});
    Set(CURLOPT_USERAGENT, kUserAgent);
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_QUICK_EXIT, 1L);  // does not wait for a resolver that hangs
    Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (request_->without_proxy) Set(CURLOPT_NOPROXY, "*");
    Set(CURLOPT_CONNECTTIMEOUT_MS, absl::ToInt64Milliseconds(request_->connect_timeout));
    Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    Set(CURLOPT_LOW_SPEED_TIME, absl::ToInt64Seconds(request_->idle_timeout));
    Set(CURLOPT_WRITEFUNCTION, &OnBytes);
    Set(CURLOPT_WRITEDATA, this);
    Set(CURLOPT_HEADERFUNCTION, &OnField);
    Set(CURLOPT_HEADERDATA, this);
    Set(CURLOPT_NOPROGRESS, 0L);
    Set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
    Set(CURLOPT_XFERINFODATA, this);
    if (!ca_file.empty()) Set(CURLOPT_CAINFO, ca_file.c_str());
  }

  void SetMethod() {
    if (request_->method == "HEAD") return Set(CURLOPT_NOBODY, 1L);
    if (request_->method == "PUT" || request_->body.size() > 0) {
      Set(CURLOPT_UPLOAD, 1L);
      Set(CURLOPT_INFILESIZE_LARGE, curl_off_t{request_->body.size()});
      Set(CURLOPT_READFUNCTION, &OnRead);
      Set(CURLOPT_READDATA, this);
      Set(CURLOPT_SEEKFUNCTION, &OnSeek);
      Set(CURLOPT_SEEKDATA, this);
    } else if (request_->method == "POST") {
      Set(CURLOPT_POST, 1L);
      Set(CURLOPT_POSTFIELDSIZE, 0L);
    }
    Set(CURLOPT_CUSTOMREQUEST, request_->method.c_str());
  }

  static size_t OnRead(char* out, size_t size, size_t count, void* handle) {
    auto& self = *static_cast<Handle*>(handle);
    const HttpBody& body = self.request_->body;
    const int64_t most = std::min<int64_t>(size * count, body.size() - self.sent_);
    if (body.file < 0) {
      std::copy_n(body.bytes.data() + self.sent_, most, out);
    } else if (most > 0) {
      const ssize_t n = Uninterrupted([&] { return pread(body.file, out, most, body.offset + self.sent_); });
      if (n <= 0) return CURL_READFUNC_ABORT;
      self.sent_ += n;
      return n;
    }
    self.sent_ += most;
    return most;
  }

  static int OnSeek(void* handle, curl_off_t offset, int origin) {
    if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
    static_cast<Handle*>(handle)->sent_ = offset;
    return CURL_SEEKFUNC_OK;
  }

  // Another result than the number of bytes ends the request.
  static size_t OnBytes(char* data, size_t size, size_t count, void* handle) {
    auto& self = *static_cast<Handle*>(handle);
    self.too_long_ = static_cast<int64_t>(self.reply_.body.size() + size * count) > self.request_->most_reply_bytes;
    if (self.too_long_) return 0;
    self.reply_.body.append(data, size * count);
    return size * count;
  }

  static size_t OnField(char* data, size_t size, size_t count, void* handle) {
    const std::string_view line(data, size * count);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      std::string name = absl::AsciiStrToLower(std::string(line.substr(0, colon)));
      static_cast<Handle*>(handle)->reply_.headers[std::move(name)] =
          std::string(absl::StripAsciiWhitespace(std::string(line.substr(colon + 1))));
    }
    return size * count;
  }

  static int OnProgress(void* handle, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return *static_cast<Handle*>(handle)->stopped_ ? 1 : 0;
  }

  CURL* const easy_;
  const HttpRequest* request_ = nullptr;
  const std::atomic<bool>* stopped_ = nullptr;
  HttpReply reply_;
  int64_t sent_ = 0;
  bool too_long_ = false;
};

HttpClient::HttpClient(std::string ca_file) : ca_file_(std::move(ca_file)) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  KINORA_CHECK(initialized == CURLE_OK);
}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Handle> HttpClient::Take() {
  absl::MutexLock lock(&mu_);
  if (idle_.empty()) return std::make_unique<Handle>();
  std::unique_ptr<Handle> handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

absl::StatusOr<HttpReply> HttpClient::Send(const HttpRequest& request) {
  if (stopped_) return absl::CancelledError("this process is stopping");
  std::unique_ptr<Handle> handle = Take();
  absl::StatusOr<HttpReply> reply = handle->Send(request, ca_file_, stopped_);
  if (reply.ok()) {  // after an error its connection may be in the middle of a reply
    absl::MutexLock lock(&mu_);
    if (idle_.size() < kMostIdle) idle_.push_back(std::move(handle));
  }
  return reply;
}

}  // namespace kinora
