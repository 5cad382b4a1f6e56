// cut_sections(): the section of each operator of a forward pass, and the values that cross between sections.
//
//   Sections sections = cut_sections(graph, /*count=*/2);
//   sections.of_operator[17]                      // 1; kEverywhere: every rank computes it
//   sections.crossings                            // value 9: made in section 0, used in section 1
//
// A section is a run of operators between two cuts. Cuts balance the estimated work; among cuts within 5 % of the best
// balance, those with the fewest crossing bytes are taken. A cut never separates
//   - an operator that writes a value in place from the operator that made the value
//   - operators of one activation checkpoint (ForwardGraph::kept_together)
//   - the uses of a buffer that an operator of a section writes, such as running statistics
//   - the uses of one parameter, except lookups: operators with a parameter and no computed input, such as an
//     embedding. If such a parameter is used again in a later section, its lookups become a section 0 of their own, on
//     the rank of the later use. So a tied parameter has one home.
// Local, values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zero {

constexpr int kEverywhere = -1;

// Measured seconds of an operator for one micro-batch.
struct OperatorSeconds {
  double forward = 0;
  double inputs = 0;   // gradients of its inputs, and others that its backward pass makes at once
  double weights = 0;  // gradients that a pass of weights makes
  double total() const { return forward + inputs + weights; }
};

// A product of matrices whose gradient of the matrix a pass of weights can make. Until then its input waits, and the
// gradient of its result.
struct WaitingProduct {
  int input = -1;  // value
  int param = -1;  // the matrix
  bool operator==(const WaitingProduct&) const = default;
};

// One operator of a forward pass, in the order of execution.
struct GraphOperator {
  std::string name;
  std::vector<int> params;    // numbers of the parameters that it uses
  std::vector<int> inputs;    // values that it reads
  std::vector<int> outputs;   // values that it makes, or writes in place
  double work = 0;            // estimated cost, in any unit
  OperatorSeconds seconds{};  // 0: not measured
  bool everywhere = false;    // it has neither parameters nor computed inputs, such as a mask: every rank runs it
  // Tensors that autograd keeps for the operator's backward pass: inputs or outputs, constants, and others of its own.
  std::vector<int> saved{};
  std::vector<int> saved_constants{};
  std::int64_t own_bytes = 0;
  std::vector<int> constants{};  // that it reads
  std::optional<WaitingProduct> product{};
  std::vector<int> buffers{};  // that it uses, of those that an operator of a section writes
};

struct GraphValue {
  std::int64_t bytes = 0;
  bool differentiable = false;
  int memory_of = -1;  // an older value whose memory it shares; -1: it has its own
};

// A tensor that an operator makes everywhere. Tensors that are older than the pass, such as samples, have no number.
struct GraphConstant {
  std::int64_t bytes = 0;
  int made_by = -1;  // operator
};

struct ForwardGraph {
  std::vector<GraphOperator> operators;
  std::vector<GraphValue> values;
  std::vector<GraphConstant> constants;
  std::vector<std::string> params;        // names
  std::vector<std::int64_t> param_bytes;  // of their gradients; 0: frozen
  std::vector<std::string> buffers{};     // names
  int loss = -1;                          // the value that the forward pass returns
  // Operators [first, second) that one section runs, such as those of an activation checkpoint. Ranges may be nested.
  std::vector<std::pair<int, int>> kept_together;
  // Operators [first, end) of a custom autograd function, and those that use its results. They have one section.
  std::vector<std::pair<int, int>> functions;
};

// A value that is made in one section and used in others.
struct Crossing {
  int value = -1;
  int made_by = -1;     // the operator that wrote it last
  int from = 0;         // section
  std::vector<int> to;  // sections, ascending
  bool operator==(const Crossing&) const = default;
};

struct Sections {
  int count = 1;                    // with the lookups
  bool has_lookup = false;          // section 0 has the lookups of tied parameters
  int home_of_lookup = -1;          // the section with the other uses of these parameters
  std::vector<int> of_operator;     // by operator
  std::vector<int> home_of_param;   // by parameter; kEverywhere: no operator uses it, so it is in the last section
  std::vector<Crossing> crossings;  // by value, ascending
  std::vector<double> work;         // by section
  bool uses_lookup_params(int section) const { return has_lookup && (section == 0 || section == home_of_lookup); }
};

// Throws ConfigError under "parallel.sections" if the graph has fewer possible cuts, or tied parameters whose homes
// differ. The message names the reason.
Sections cut_sections(const ForwardGraph& graph, int count);

// Returns the sections of a model that is cut before named units. `first_units`: a unit or a parameter for each section
// after the first, by its whole name or by the end of a unit's name ("h.2" for "transformer.h.2"). Operators without
// parameters before a unit are in the section that lets fewer bytes cross. Throws ConfigError under "parallel.cut" if
// no parameter or several units have such a name, if units are not in the order of the forward pass, and if the model
// cannot be cut there.
Sections cut_at_units(const ForwardGraph& graph, const std::vector<std::string>& first_units);

// Returns the sections of another forward pass of the same model, such as an evaluation: an operator with a parameter
// is in the parameter's home, and an operator without one is in the section of the operator before it. Operators with
// one written buffer are together. `cut`: the sections of the training pass; `graph` has the same parameters. Throws
// ConfigError under "passes" if the pass uses parameters or written buffers in another order of sections.
Sections follow_sections(const ForwardGraph& graph, const Sections& cut);

}  // namespace zero
