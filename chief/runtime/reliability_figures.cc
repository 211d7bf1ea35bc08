#include "chief/runtime/reliability_figures.h"

#include <algorithm>

namespace downpour::chief {

using Json = nlohmann::ordered_json;

Json bins_json(const std::vector<ReliabilityBin>& bins) {
  Json json = Json::array();
  for (const ReliabilityBin& bin : bins) json.push_back({bin.predicted, bin.observed, bin.records});
  return json;
}

std::vector<ReliabilityBin> bins_from(const Json& json) {
  std::vector<ReliabilityBin> bins;
  for (const Json& bin : json)
    bins.push_back({bin.at(0).get<double>(), bin.at(1).get<double>(), bin.at(2).get<uint64_t>()});
  return bins;
}

std::vector<ReliabilityFigures> reliability_figures(const Job& job, const Evaluation& evaluation) {
  std::vector<ReliabilityFigures> figures;
  const size_t outputs = std::min(evaluation.reliability.size(), job.model.outputs.size());
  for (size_t o = 0; o < outputs; ++o) {
    if (!evaluation.reliability[o].empty())
      figures.push_back({job.model.outputs[o].name, evaluation.reliability[o]});
  }
  return figures;
}

Json reliability_json(const std::vector<ReliabilityFigures>& figures) {
  Json json = Json::object();
  for (const ReliabilityFigures& of : figures) json[of.output] = bins_json(of.bins);
  return json;
}

std::vector<ReliabilityFigures> reliability_from(const Json& json) {
  std::vector<ReliabilityFigures> figures;
  for (const auto& [output, bins] : json.items()) figures.push_back({output, bins_from(bins)});
  return figures;
}

}  // namespace downpour::chief
