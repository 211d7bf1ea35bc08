#include "tools/embedded/description.h"

#include "shared/base/enum_text.h"
#include "shared/job/losses.h"

namespace downpour::tools {

const char* type_name(FieldType type) {
  return enum_text<FieldType::kString>(type, {"number", "integer", "text"});
}

nlohmann::ordered_json describe_outputs(const Scorer& scorer) {
  auto outputs = nlohmann::ordered_json::array();
  const Job& job = scorer.job();
  for (size_t o = 0; o < job.model.outputs.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    const FieldSpec* const target = job.data.find_field(output.target);
    outputs.push_back(
        {{"name", output.name},
         {"target", output.target},
         {"weights", output.weights},
         {"loss", output.loss},
         {"prediction", find_loss(output.loss)->prediction()},
         {"width", scorer.widths()[o]},
         {"classes", target == nullptr ? std::vector<std::string>() : target->classes}});
  }
  return outputs;
}

}  // namespace downpour::tools
