#pragma once
// Names of the room without MPI: for headers that hold communicators they are given.

#include "lockstep/comm/wire.hpp"

namespace lockstep::comm {

class Communicator;
class Environment;
class Request;
class ProgressEngine;
template <class T>
class OrderedReduction;
template <class T>
class AllGather;

}  // namespace lockstep::comm
