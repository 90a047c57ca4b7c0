"""List the options of the programs that start ranks: which of them take a value.

A comment names the source of each list: the program's code or its help. If there is no such source, the comment says
so.
"""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


MPI, HOROVOD, TORCH, ACCELERATE, DEEPSPEED, SRUN = "mpirun", "horovodrun", "torchrun", "accelerate", "deepspeed", "srun"
# TWO lists the options with two values, and ONE the options with one value. Other options have no value. Only for
# mpirun, `_guess` in starters.py decides whether an unknown option has a value.
TWO = {MPI: names("mca gmca omca gomca prtemca pmixmca genv env"), HOROVOD: names("blacklist-cooldown-range")}
# Options of Open MPI: from `mpirun --help all` of 4.1.4, and for version 5 from src/mca/schizo/ompi/schizo_ompi.c of
# prrte.
OPEN_MPI = """
    am amca app arch bind-to c cartofile cf cpu-list cpu-set cpus-per-proc cpus-per-rank debugger default-hostfile
    display file forward-signals H hnp host hostfile initial-errhandler launch-agent machinefile map-by
    max-restarts max-vm-size n N np npernode npersocket ompi-server output output-directory output-filename path
    personality ppr prefix preload-files pset rank-by rankfile report-events report-pid report-uri rf runtime-options
    spawn-timeout stdin stream-buffering timeout tmpdir tune wd wdir with-ft x xml-file xterm
    """
# Options of MPICH, from `mpiexec.hydra --help` of 4.0.2.
HYDRA = """
    configfile demux envlist errfile-pattern f genvlist gpus-per-proc hosts iface launcher launcher-exec localhost
    membind nameserver order-nodes outfile-pattern ppn prepend-pattern rmk topolib usize
    """
# Options of Intel MPI, prun and Open MPI 1. This list was not compared with a source.
OTHER_MPI = "bootstrap dvm-uri machine perhost slot-list"
ONE = {
    MPI: names(f"{OPEN_MPI} {HYDRA} {OTHER_MPI}"),
    # horovod/runner/launch.py of Horovod 0.28.
    HOROVOD: names(
        """
        np num-proc p ssh-port ssh-identity-file start-timeout network-interface network-interfaces output-filename
        config-file H hosts hostfile min-np min-num-proc max-np max-num-proc slots-per-host host-discovery-script
        elastic-timeout reset-limit i autotune-warmup-samples autotune-steps-per-sample
        autotune-bayes-opt-max-samples autotune-gaussian-process-noise cycle-time-ms fusion-threshold-mb cache-capacity
        log-level timeline-filename mpi-args num-nccl-streams thread-affinity gloo-timeout-seconds autotune-log-file
        stall-check-warning-time-seconds stall-check-shutdown-time-seconds
        """
    ),
    # torch/distributed/run.py of PyTorch 2.
    TORCH: names(
        """
        nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval
        start-method role log-dir r redirects t tee local-ranks-filter node-rank master-addr master-port local-addr
        logs-specs numa-binding signals-to-handle virtual-local-rank-env event-log-handler
        """
    ),
    # accelerate/commands/launch.py of accelerate 1.15.0.
    ACCELERATE: names(
        """
        aws-access-key-id aws-secret-access-key config-file deepspeed-config-file deepspeed-exclusion-filter
        deepspeed-hostfile deepspeed-inclusion-filter deepspeed-moe-layer-cls-names deepspeed-multinode-launcher
        dynamo-backend dynamo-mode env fp8-amax-compute-algo fp8-amax-history-len fp8-backend
        fp8-enable-fsdp-float8-all-gather fp8-format fp8-interval fp8-margin fp8-opt-level
        fp8-override-linear-precision fp8-pad-inner-dim fsdp-activation-checkpointing
        fsdp-activation-checkpointing-offload fsdp-auto-wrap-policy fsdp-backward-prefetch
        fsdp-cpu-ram-efficient-loading fsdp-forward-prefetch fsdp-min-num-params fsdp-offload-params
        fsdp-reshard-after-forward fsdp-sharding-strategy fsdp-state-dict-type fsdp-sync-module-states
        fsdp-transformer-layer-cls-to-wrap fsdp-use-orig-params fsdp-version gpu-ids gradient-accumulation-steps
        gradient-clipping log-dir machine-rank main-process-ip main-process-port main-training-function max-restarts
        megatron-lm-attention-backend megatron-lm-attention-dropout megatron-lm-attention-softmax-in-fp32
        megatron-lm-calculate-per-token-loss megatron-lm-context-parallel-size
        megatron-lm-decoder-last-pipeline-num-layers megatron-lm-eod-mask-loss megatron-lm-expert-model-parallel-size
        megatron-lm-expert-tensor-parallel-size megatron-lm-gradient-clipping megatron-lm-hidden-dropout
        megatron-lm-no-load-optim megatron-lm-no-save-optim megatron-lm-num-micro-batches
        megatron-lm-optimizer-cpu-offload megatron-lm-overlap-cpu-optimizer-d2h-h2d megatron-lm-pp-degree
        megatron-lm-recompute-activations megatron-lm-recompute-granularity megatron-lm-recompute-method
        megatron-lm-recompute-num-layers megatron-lm-sequence-parallelism megatron-lm-tp-degree
        megatron-lm-use-custom-fsdp megatron-lm-use-distributed-optimizer megatron-lm-use-precision-aware-optimizer
        megatron-lm-use-rotary-position-embeddings mixed-precision monitor-interval mpirun-hostfile
        num-cpu-threads-per-process num-machines num-processes offload-optimizer-device offload-optimizer-nvme-path
        offload-param-device offload-param-nvme-path parallelism-config-cp-backend parallelism-config-cp-comm-strategy
        parallelism-config-cp-size parallelism-config-dp-replicate-size parallelism-config-dp-shard-size
        parallelism-config-sp-attn-implementation parallelism-config-sp-backend parallelism-config-sp-seq-length
        parallelism-config-sp-seq-length-is-variable parallelism-config-sp-size parallelism-config-tp-size rdzv-backend
        rdzv-conf role t tee vm zero-stage zero3-init-flag zero3-save-16bit-model
        """
    ),
    # Options of DeepSpeed, from deepspeed/launcher/runner.py in commit 2d991ba of deepspeedai/DeepSpeed.
    DEEPSPEED: names(
        """
        H hostfile i include e exclude num-nodes min-elastic-nodes max-elastic-nodes num-gpus num-accelerators
        master-port master-addr node-rank launcher launcher-args enable-each-rank-log autotuning comment account
        bind-core-list ssh-port
        """
    ),
    # Options of srun, from srun(1) of Slurm 22.05. The container options belong to pyxis and were not compared with a
    # source. An option with an optional value, such as --kill-on-bad-exit[=0|1], accepts that value only after an
    # equals sign.
    SRUN: names(
        """
        A b B C c D d e F G i J L M m N n o p q r S T t W w x accel-bind account acctg-freq bb bbf bcast-exclude begin
        chdir cluster-constraint clusters comment constraint container core-spec cores-per-socket cpu-bind cpu-freq
        cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution epilog error exclude export
        extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
        het-group hint input job-name jobid licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu
        mincpus mpi msg-timeout network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node
        ntasks-per-socket open-mode output partition power prefer priority profile prolog qos relative reservation
        signal slurmd-debug sockets-per-node switches task-epilog task-prolog thread-spec threads threads-per-core time
        time-min tmp uid wait wckey container-image container-mounts container-workdir container-name
        container-save container-env tasks-per-node workdir
        """
    ),
}
# For these programs, the value of a single-letter option may be in the same word, as in srun -N2.
GLUED = {SRUN}


# Options of Open MPI and Hydra without a value, from the same sources. If an option is in none of the lists, the next
# word decides whether it is the option's value. --display-topo is not listed, because it has a value only in Open MPI
# 5.
ALONE = names(
    """
    allow-run-as-root bind-to-core bind-to-none bind-to-socket bycore bynode byslot bysocket continuous d debug
    debug-daemons debug-daemons-file debug-devel disable-auto-cleanup disable-hostname-propagation disable-recovery
    disable-x display-allocation display-comm display-comm-finalize display-devel-allocation display-devel-map
    display-diffable-map display-map do-not-aggregate-help do-not-launch do-not-resolve dvm enable-instant-on-support
    enable-recovery enable-x envall envnone fwd-mpirun-port genvall genvnone get-stack-traces index-argv-by-rank info l
    leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe noprefix novm output-proctable oversubscribe
    pernode preload-binary prepend-rank print-all-exitcodes print-rank-map q quiet report-bindings
    report-child-jobs-separately report-state-on-timeout set-cwd-to-session-dir show-progress skip-launch-node
    stop-in-app stop-in-init stop-on-exec tag-output timestamp-output tv use-hwthread-cpus use-regexp v V verbose
    version xml
    """
)
