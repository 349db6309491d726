//! What the fuzz targets share. It knows nothing about Threadline: the targets do.
//!
//! A target is `fuzz_target!(init: prepare(), |data: &[u8]| { ... })`.

/// Makes a stack overflow leave its input behind like any other crash.
///
/// libFuzzer writes the input from a signal handler, which needs a stack to run on. Its own runtime sets up none
/// for `SIGSEGV`, and a process without one is gone without a word.
///
/// # Panics
/// When the system refuses the stack.
#[cfg(unix)]
pub fn prepare() {
    let memory = Box::leak(vec![0_u8; 1 << 16].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: the memory is leaked, so it stays valid; all-zero is a valid `sigaction`. libFuzzer takes the flag over
    // into the handler that it sets later.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// There are no signals to prepare for.
#[cfg(not(unix))]
pub fn prepare() {}
