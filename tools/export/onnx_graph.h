// OnnxGraph: translates the operations of a model to nodes of an ONNX model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "shared/base/result.h"
#include "shared/model/program.h"
#include "tools/export/archive.h"
#include "tools/export/onnx_file.h"

namespace downpour::tools {

class OnnxGraph {
 public:
  /// `weights(t)` returns the weights of dense table `t` of the program.
  OnnxGraph(const model::Program& program, OnnxFile& file,
            std::function<Result<std::vector<float>>(size_t)> weights);

  /// Adds inputs, weights, nodes and outputs. Adds descriptions of the inputs and outputs as the
  /// metadata "downpour.inputs" and "downpour.outputs". Errors: those of `weights`.
  Result<void> build(const Job& job);
  /// Returns the inputs, then the outputs, with 0 for the number of records.
  std::vector<ArraySpec> signature() const;

 private:
  using ValueId = model::ValueId;
  /// What an input has of the rows of a field.
  enum class Pool : uint8_t { kSum, kMean, kSquares };

  Result<void> load_weights();
  void add_numbers();
  /// Returns the input with the pooled rows of a bag. Adds it when it is first needed.
  std::string rows(const model::BagUse& bag, Pool pool, uint32_t dim);
  /// Adds all inputs of rows that the program reads.
  void add_rows();
  std::string value(ValueId id);
  const VariableSpec& spec_of(uint32_t variable) const;
  std::string constant(float number);
  std::string sum(const std::vector<std::string>& terms);
  std::string sum_of_columns(const std::string& x);
  std::string activated(const std::string& x, model::Activation activation);
  void add_output(size_t o);

  // One overload for each operation. Each adds the nodes of the operation, and names its result.
  void add(const model::PoolOp& op);
  void add(const model::FmOp& op);
  void add(const model::DenseOp& op);
  void add(const model::ActivationOp& op);
  void add(const model::DropoutOp& op);
  void add(const model::DotOp& op);
  void add(const model::NormOp& op);
  void add(const model::AddOp& op);
  void add(const model::ConcatOp& op);
  void add(const model::SumOp& op);
  void add(const model::PiecewiseOp& op);
  void add(const model::CrossOp& op);

  const model::Program& program_;
  OnnxFile& file_;
  std::function<Result<std::vector<float>>(size_t)> read_weights_;
  std::vector<std::pair<size_t, size_t>> places_;  // by variable: its table, and its place there
  std::map<uint32_t, std::string> weights_;        // by dense variable
  std::map<ValueId, std::string> values_;
  std::map<std::tuple<uint32_t, uint32_t, Pool>, std::string> rows_;  // by variable and bag
  std::map<float, std::string> constants_;
  nlohmann::ordered_json inputs_, outputs_;
};

}  // namespace downpour::tools
