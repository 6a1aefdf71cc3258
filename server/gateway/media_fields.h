// The fields of a request that name files: references, conditions and a retake.
#ifndef KINORA_SERVER_GATEWAY_MEDIA_FIELDS_H_
#define KINORA_SERVER_GATEWAY_MEDIA_FIELDS_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/gateway/create_fields.h"
#include "server/gateway/field_reader.h"

namespace kinora {

class MediaFields {
 public:
  // All must outlive this. Adds to `out`.
  MediaFields(const RequestFields& fields, const FieldRules& rules, FieldViolations& violations, CreateFields& out)
      : fields_(fields), rules_(rules), violations_(violations), out_(out) {}

  void Read(FieldReader& reader);
  // File parts that no field names.
  std::vector<std::string> UnusedFiles() const;

 private:
  struct Reference;
  struct Target {
    PendingInput::Place place = PendingInput::Place::kCondition;
    InputUse use = InputUse::kImage;
    bool clip_or_image = false;
  };
  static const Reference kReferences[];

  void ReadReference(const Reference& reference, FieldReader& reader);
  void ReadReferenceObject(const Reference& reference, const nlohmann::ordered_json& object);
  void ReadConditions(FieldReader& reader);
  void ReadCondition(const std::string& field, const nlohmann::ordered_json& object);
  void ReadRetake(FieldReader& reader);
  // Puts the file that `text` names, in `field`, into its place; a new condition if that is kCondition.
  void Put(const std::string& field, const std::string& text, const Target& target);
  void PutPending(PendingInput pending, const Target& target);
  void PutData(const std::string& field, const std::string& text, const Target& target);
  void PutUrl(const std::string& field, const std::string& text, const Target& target);
  v1::MediaRef* PlaceOf(const Target& target, int& condition);
  void Reject(const std::string& field, std::string description) {
    violations_.push_back({field, std::move(description)});
  }

  const RequestFields& fields_;
  const FieldRules& rules_;
  FieldViolations& violations_;
  CreateFields& out_;
  std::set<std::string> used_files_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_MEDIA_FIELDS_H_
