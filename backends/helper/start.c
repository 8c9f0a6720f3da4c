/* Process entry and the one piece of assembly that C cannot express: a task on a stack of its own. */
#include "base.h"

#if defined(__x86_64__)
__asm__ (".text\n"
         ".global _start\n"
         "_start:\n"
         "  xor %ebp, %ebp\n"
         "  mov %rsp, %rdi\n"
         "  and $-16, %rsp\n"
         "  call start_c\n"
         /* long clone_call (flags, stack_top, fn, arg) */
         ".global clone_call\n"
         "clone_call:\n"
         "  lea -16(%rsi), %rsi\n"
         "  mov %rdx, (%rsi)\n"  /* fn */
         "  mov %rcx, 8(%rsi)\n" /* arg */
         "  xor %edx, %edx\n"
         "  xor %r10d, %r10d\n"
         "  xor %r8d, %r8d\n"
         "  mov $56, %eax\n" /* __NR_clone */
         "  syscall\n"
         "  test %rax, %rax\n"
         "  jz 1f\n"
         "  ret\n"
         "1: xor %ebp, %ebp\n"
         "  pop %rax\n"
         "  pop %rdi\n"
         "  call *%rax\n"
         "  mov %eax, %edi\n"
         "  mov $60, %eax\n" /* __NR_exit */
         "  syscall\n"
         "  hlt\n");
#elif defined(__aarch64__)
__asm__ (".text\n"
         ".global _start\n"
         "_start:\n"
         "  mov x29, #0\n"
         "  mov x30, #0\n"
         "  mov x0, sp\n"
         "  and sp, x0, #-16\n"
         "  bl start_c\n"
         ".global clone_call\n"
         "clone_call:\n"
         "  stp x2, x3, [x1, #-16]!\n" /* fn, arg */
         "  mov x2, #0\n"
         "  mov x3, #0\n"
         "  mov x4, #0\n"
         "  mov x8, #220\n" /* __NR_clone */
         "  svc #0\n"
         "  cbz x0, 1f\n"
         "  ret\n"
         "1: mov x29, #0\n"
         "  ldp x1, x0, [sp], #16\n"
         "  blr x1\n"
         "  mov x8, #93\n" /* __NR_exit */
         "  svc #0\n");
#endif

__attribute__ ((noreturn, used)) void
start_c (long *stack)
{
  int argc = (int) stack[0];
  exit_now (helper_main (argc, (char **) (stack + 1)));
}
