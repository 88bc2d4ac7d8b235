// Variables that cannot be made.
#include "world.hpp"

std::vector<float> memory(8);
float* pointer;

struct Tensor {
  float values[8];
} tensor;

#if defined(accumulator_of_a_tensor)
// expect: parallax: an Accumulator is made of a Dense or Sparse variable
px::Accumulator sums{memory};
#elif defined(auto_table_in_user_memory)
// expect: parallax: under Auto rows move from rank to rank: let the library own the table
px::Variable<px::Sparse, px::Auto> words{session, "words", px::bind_rows(memory, 2)};
#elif defined(bad_ids_of_a_dense_variable)
// expect: parallax: a Dense variable is made from a session, a name, bind(tensor), its own optimizer and a Reduce
px::Variable<px::Dense> weights{session, "weights", px::bind(memory), px::BadIds::hash};
#elif defined(bind_of_a_pointer_alone)
// expect: parallax: a pointer is bound with the number of elements that lie there: bind(p, n)
px::Variable<px::Dense> weights{session, "weights", px::bind(pointer)};
#elif defined(bind_of_a_pointer_to_const)
// expect: parallax: a variable is updated in place: bind memory that is not const
float const* steady;
px::Variable<px::Dense> weights{session, "weights", px::bind(steady, 8)};
#elif defined(bind_of_a_pointer_to_integers)
// expect: parallax: the bound memory is not of the variable's scalar type
int* integers;
px::Variable<px::Dense> weights{session, "weights", px::bind(integers, 8)};
#elif defined(bind_of_an_untyped_pointer)
// expect: parallax: bind takes a tensor: a contiguous range, or a type with px::tensor_traits of its own
void* untyped;
px::Variable<px::Dense> weights{session, "weights", px::bind(untyped, 8)};
#elif defined(bind_of_no_tensor)
// expect: parallax: bind takes a tensor: a contiguous range, or a type with px::tensor_traits of its own
px::Variable<px::Dense> weights{session, "weights", px::bind(tensor, 8)};
#elif defined(bind_rows_of_no_tensor)
// expect: parallax: bind_rows takes a contiguous range, or a type whose px::tensor_traits has flat
px::Variable<px::Sparse, px::AllGather> words{session, "words", px::bind_rows(tensor, 2)};
#elif defined(columns_of_a_dense_variable)
// expect: parallax: Columns cuts a Sparse variable: Columns<Variable<Sparse, ...>, parts>
#include <parallax/step/columns.hpp>
px::Columns<px::Variable<px::Dense>, 2> wide{session, "wide", {4, 2}};
#elif defined(const_memory)
// expect: parallax: a variable is updated in place: bind memory that is not const
std::vector<float> const steady(8);
px::Variable<px::Dense> weights{session, "weights", px::bind(steady)};
#elif defined(const_table)
// expect: parallax: a variable is updated in place: bind memory that is not const
std::vector<float> const steady(8);
px::Variable<px::Sparse, px::AllGather> words{session, "words", px::bind_rows(steady, 2)};
#elif defined(dense_variable_made_of_a_table)
// expect: parallax: a Dense variable is given the memory of its parameters: a session, a name, bind(tensor)
px::Variable<px::Dense> weights{session, "weights", px::Table{.rows = 3, .width = 2}};
#elif defined(dense_variable_of_16_bits)
// expect: parallax: BFloat16 and Float16 are for the rows of a Sparse variable: a Dense one is of float or double
px::Variable<px::Dense, px::BFloat16> weights{session, "weights", px::bind(memory)};
#elif defined(memory_of_another_scalar)
// expect: parallax: the bound memory is not of the variable's scalar type
std::vector<double> exact(8);
px::Variable<px::Dense> weights{session, "weights", px::bind(exact)};
#elif defined(name_before_the_session)
// expect: parallax: a variable is made from a session and a name: the session comes first
px::Variable<px::Sparse> words{"words", session, {.rows = 4, .width = 2}};
#elif defined(name_before_the_session_of_a_layer)
// expect: parallax: a variable is made from a session and a name: the session comes first
std::vector<px::Variable<px::Dense>> layers;
void add(int i) { layers.emplace_back("layer " + std::to_string(i), session, px::bind(memory), px::Sgd{}); }
#elif defined(padded_table_of_the_host)
// expect: parallax: px::Padded is for tables on a device under PsShard (a padding exchange), with a partitioner that places rows there
px::Variable<px::Sparse> words{session, "words", {.rows = 10, .width = 2}, px::Padded{.capacity = 5}};
#elif defined(settings_of_another_optimizer)
// expect: parallax: a Dense variable is made from a session, a name, bind(tensor), its own optimizer and a Reduce
px::Variable<px::Dense, px::Adam> weights{session, "weights", px::bind(memory), px::Sgd{.learning_rate = 0.1}};
#elif defined(settings_of_another_partitioner)
// expect: parallax: a Sparse variable is made from a session, a name, its table, its own optimizer and partitioner,
px::Variable<px::Sparse, px::Hash> words{session, "words", {4, 2}, px::Cyclic{}};
#elif defined(sharded_table_in_user_memory)
// expect: parallax: under PsShard a rank holds only its shard
px::Variable<px::Sparse> words{session, "words", px::bind_rows(memory, 2)};
#elif defined(sparse_variable_made_of_a_vector)
// expect: parallax: a Sparse variable is given its rows: a Table{rows, width}, or memory of yours by bind_rows or bind_shard
px::Variable<px::Sparse, px::AllGather> words{session, "words", px::bind(memory)};
#elif defined(table_of_a_row)
// expect: parallax: the members of a Table are rows, width and initial: it has no row
px::Variable<px::Sparse> words{session, "words", {.row = 4, .width = 2, .initial = px::uniform(-1, 1)}, px::Reduce::sum};
#elif defined(updates_of_no_variable)
// expect: parallax: Updates is a list for one type of variable: Updates<Variable<Dense, ...>>
px::Updates<std::vector<float>> updates;
#endif
