#include "server/s3/s3_answers.h"

#include <pugixml.hpp>
#include <sstream>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

// Returns the root element if it has this name, or an empty node.
pugi::xml_node Root(pugi::xml_document& document, const std::string& body, std::string_view name) {
  const pugi::xml_parse_result parsed = document.load_buffer(body.data(), body.size());
  const pugi::xml_node root = document.document_element();
  return parsed && root.name() == name ? root : pugi::xml_node();
}

absl::Status Unexpected(std::string_view name) {
  return absl::UnavailableError(absl::StrCat("the reply is no ", std::string(name)));
}

absl::Time ParseTimestamp(const std::string& text) {
  absl::Time time;
  return absl::ParseTime(absl::RFC3339_full, text, &time, nullptr) ? time : absl::InfinitePast();
}

}  // namespace

S3Error ParseS3Error(const std::string& body) {
  pugi::xml_document document;
  pugi::xml_node error = Root(document, body, "Error");
  if (!error) error = Root(document, body, "ErrorResponse").child("Error");  // STS
  return {.code = error.child_value("Code"), .message = error.child_value("Message")};
}

bool HasRoot(const std::string& body, const std::string& name) {
  pugi::xml_document document;
  return !Root(document, body, name).empty();
}

absl::StatusOr<S3Listing> ParseListing(const std::string& body) {
  pugi::xml_document document;
  const pugi::xml_node root = Root(document, body, "ListBucketResult");
  if (!root) return Unexpected("ListBucketResult");
  S3Listing out;
  for (const pugi::xml_node& object : root.children("Contents")) {
    out.objects.push_back({.key = object.child_value("Key"),
                           .bytes = object.child("Size").text().as_llong(),
                           .modified = ParseTimestamp(object.child_value("LastModified"))});
  }
  for (const pugi::xml_node& prefix : root.children("CommonPrefixes")) {
    out.prefixes.emplace_back(prefix.child_value("Prefix"));
  }
  out.next = root.child_value("NextContinuationToken");
  return out;
}

absl::StatusOr<std::string> ParseUploadId(const std::string& body) {
  pugi::xml_document document;
  std::string id = Root(document, body, "InitiateMultipartUploadResult").child_value("UploadId");
  if (id.empty()) return Unexpected("InitiateMultipartUploadResult");
  return id;
}

std::string CompletionBody(const std::vector<std::string>& etags) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("CompleteMultipartUpload");
  root.append_attribute("xmlns") = "http://s3.amazonaws.com/doc/2006-03-01/";
  for (size_t i = 0; i < etags.size(); ++i) {
    pugi::xml_node part = root.append_child("Part");
    part.append_child("PartNumber").text() = static_cast<int>(i + 1);
    part.append_child("ETag").text() = etags[i].c_str();
  }
  std::ostringstream out;
  document.save(out, "", pugi::format_raw);
  return out.str();
}

absl::StatusOr<AwsKeys> ParseAssumedRole(const std::string& body) {
  pugi::xml_document document;
  const pugi::xml_node keys = Root(document, body, "AssumeRoleWithWebIdentityResponse")
                                  .child("AssumeRoleWithWebIdentityResult")
                                  .child("Credentials");
  AwsKeys out{.id = keys.child_value("AccessKeyId"),
              .secret = keys.child_value("SecretAccessKey"),
              .session_token = keys.child_value("SessionToken")};
  out.expiry = ParseTimestamp(keys.child_value("Expiration"));
  if (out.id.empty() || out.secret.empty() || out.session_token.empty() || out.expiry == absl::InfinitePast()) {
    return Unexpected("AssumeRoleWithWebIdentityResponse with keys");
  }
  return out;
}

}  // namespace kinora
