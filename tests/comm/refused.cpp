// Sums in a type that gradients are not kept in.

#include "lockstep/comm/ordered_reduction.hpp"

#if defined(NOT_FLOAT_OR_DOUBLE)
template class lockstep::comm::OrderedReduction<int>;
#else
template class lockstep::comm::OrderedReduction<float>;
template class lockstep::comm::OrderedReduction<double>;
#endif
