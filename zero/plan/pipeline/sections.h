// cut_sections(): the section of each operator of a forward pass, and the values that cross between sections.
//
//   Sections sections = cut_sections(graph, /*count=*/2);
//   sections.of_operator[17]                      // 1; kEverywhere: every rank computes it
//   sections.crossings                            // value 9: made in section 0, used in section 1
//
// A section is the sequence of operators between two cuts. Cuts balance the work of sections (GraphOperator::work).
// Among cuts whose largest section is within 5 % of the smallest possible, the cuts with the fewest crossing bytes are
// chosen. A cut never separates
//   - an operator that writes a value in place from the operator that made the value
//   - operators of one activation checkpoint (ForwardGraph::kept_together)
//   - operators of one custom autograd function, and those that use its results (ForwardGraph::functions)
//   - the uses of a buffer that an operator of a section writes, such as running statistics
//   - the uses of one parameter, except lookups
//
// A lookup is an operator with a parameter and no computed input, such as an embedding. If a later section also uses
// the parameter, its lookups become a new section 0, the lookup section. It is on the rank of that later section. So a
// tied parameter has one home. Local, values only.
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
  double inputs = 0;   // gradients of its inputs, and all gradients of weights that cannot be postponed
  double weights = 0;  // gradients of weights that can be postponed to a pass of weights
  double total() const { return forward + inputs + weights; }
};

// A product of an input and a parameter, whose gradient a pass of weights can compute. Until that pass, the rank holds
// the input and the gradient of the result.
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
  double work = 0;            // estimated cost in any unit; with CutBy::kSeconds the measured seconds
  OperatorSeconds seconds{};  // 0: not measured
  bool everywhere = false;    // it has neither parameters nor computed inputs, such as a mask: every rank runs it
  // Tensors that autograd keeps for the operator's backward pass.
  std::vector<int> saved{};            // values
  std::vector<int> saved_constants{};  // constants
  std::int64_t own_bytes = 0;          // bytes of all other tensors
  std::vector<int> constants{};        // constants that it reads
  std::optional<WaitingProduct> product{};
  std::vector<int> buffers{};  // buffers of a section that it uses
};

struct GraphValue {
  std::int64_t bytes = 0;
  bool differentiable = false;
  int memory_of = -1;  // an older value whose memory it shares; -1: it has its own
};

// A tensor that every rank computes. Tensors that are older than the pass, such as samples, have no number.
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
  int count = 1;                    // with the lookup section
  bool has_lookup = false;          // section 0 is the lookup section
  int home_of_lookup = -1;          // the section with the other uses of these parameters
  std::vector<int> of_operator;     // by operator; kEverywhere: every rank runs it
  std::vector<int> home_of_param;   // by parameter; the home of an unused parameter is the last section
  std::vector<Crossing> crossings;  // by value, ascending
  std::vector<double> work;         // by section
  bool uses_lookup_params(int section) const { return has_lookup && (section == 0 || section == home_of_lookup); }
};

// Returns `count` sections, and perhaps a lookup section. Throws ConfigError under "parallel.sections" if the graph has
// fewer possible cuts, or if lookups would move to two different sections. The message names the reason.
Sections cut_sections(const ForwardGraph& graph, int count);

// Returns the sections of a model that is cut before named units. `first_units`: a unit or a parameter for each section
// after the first. A name is whole, or the end of a unit's name ("h.2" for "transformer.h.2"). The cut is before the
// unit, or before an operator without parameters that runs just before it: at the place with the fewest crossing bytes.
// Throws ConfigError under "parallel.cut" if
//   - no parameter, or several units, have such a name
//   - units are not in the order of the forward pass
//   - the model cannot be cut there
Sections cut_at_units(const ForwardGraph& graph, const std::vector<std::string>& first_units);

// Returns the sections of another forward pass of the same model, such as an evaluation. An operator with a parameter
// is in the parameter's home, and an operator without parameters is in the section of the operator before it. All
// operators that use one buffer of a section are in one section. `cut`: the sections of the training pass; `graph` has
// the same parameters. Throws ConfigError under "passes" if parameters or buffers are used in another order of
// sections.
Sections follow_sections(const ForwardGraph& graph, const Sections& cut);

}  // namespace zero
