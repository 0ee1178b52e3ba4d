# What the headers include, by component: read by the build and, installed, by lockstepConfig.cmake.

set(lockstep_components core mpi io)
set(lockstep_core_packages xtensor xsimd TBB)  # everything that runs on one rank
set(lockstep_mpi_packages MPI)                 # comm/, and strategies over several ranks
set(lockstep_io_packages nlohmann_json)        # io/, and what uses it in train/: weights, checkpoints

set(lockstep_TBB_components tbb)
set(lockstep_MPI_components CXX)
