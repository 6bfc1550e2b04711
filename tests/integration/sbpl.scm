; SPDX-License-Identifier: Apache-2.0
; What a profile of sandbox-exec allows, by Guile (Apple embeds TinyScheme). The last rule that matches decides. An operation, a filter or a form that is
; not known here is an error: a profile must not contain words that nobody understands.
;
;   guile sbpl.scm PROFILE QUESTIONS [NAME=value ...]
;
; QUESTIONS: a list of (operation subject type); the answers are printed as lines, "allow" or "deny". type: DIRECTORY, REGULAR-FILE, ...
(use-modules (ice-9 regex) (srfi srfi-1))
(setlocale LC_ALL "C.UTF-8")
(read-hash-extend #\" (lambda (c p) (let loop ((acc '())) (let ((ch (read-char p))) (if (char=? ch #\") (list->string (reverse acc)) (loop (cons ch acc)))))))

(define rules '())
(define params
  (map (lambda (a) (let ((i (string-index a #\=))) (cons (substring a 0 i) (substring a (+ i 1))))) (cdddr (command-line))))
(define (param k) (let ((v (assoc k params))) (if v (cdr v) (error "parameter without a value" k))))
(define (version n) (if (not (= n 1)) (error "version" n)))
(define (text who s) (if (string? s) s (error "a string is expected by" who s)))
(define (path who s)
  (text who s)
  (if (not (char=? (string-ref s 0) #\/)) (error "a path is expected by" who s))
  (if (and (> (string-length s) 1) (string-suffix? "/" s)) (error "a path must not end in /" s))
  s)
(define (each kind check l) (cons 'or (map (lambda (x) (list kind (check kind x))) l)))
(define (subpath . l) (each 'subpath path l))
(define (literal . l) (each 'literal path l))
(define (regex . l) (cons 'or (map (lambda (x) (list 'regex (make-regexp (text 'regex x)))) l)))
(define (global-name . l) (each 'literal text l))
(define (sysctl-name . l) (each 'literal text l))
(define (ipc-posix-name . l) (each 'literal text l))
(define (extension n) (list 'never n))
(define (require-all . l) (cons 'and l))
(define (require-any . l) (cons 'or l))
(define (require-not x) (list 'not x))
(define-syntax-rule (vnode-type t) (list 'type 't))
(define-syntax-rule (target t) (list 'literal (symbol->string 't)))
(define-syntax-rule (remote kind address) (list 'literal (string-append (symbol->string 'kind) ":" address)))

(define known-ops
  '(default file-read* file-read-data file-read-metadata file-read-xattr file-write* file-write-data file-write-create file-write-unlink
    file-write-mode file-write-owner file-write-flags file-write-times file-write-xattr file-write-setugid file-ioctl
    file-map-executable file-link file-clone process-exec process-exec* process-fork process-info* process-info-pidinfo signal
    sysctl-read sysctl-write network-outbound network-inbound network-bind mach-lookup mach-register ipc-posix-shm-read-data ipc-posix-shm-write-data
    ipc-posix-sem iokit-open pseudo-tty system-socket user-preference-read appleevent-send job-creation lsopen))
(define (add-rule! action words)
  (let ((ops (filter symbol? words)) (filters (remove symbol? words)))
    (for-each (lambda (o) (if (not (memq o known-ops)) (error "unknown operation" o))) ops)
    (set! rules (cons (list action ops (map (lambda (f) (eval f (interaction-environment))) filters)) rules))))
(define-macro (allow . words) `(add-rule! 'allow ',words))
(define-macro (deny . words) `(add-rule! 'deny ',words))

(define (covers? rule-op op)
  (or (eq? rule-op 'default) (eq? rule-op op)
      (let ((r (symbol->string rule-op)))
        (and (string-suffix? "*" r) (string-prefix? (string-drop-right r 1) (symbol->string op))))))
(define (match? f subject type)
  (case (car f)
    ((or) (any (lambda (x) (match? x subject type)) (cdr f)))
    ((and) (every (lambda (x) (match? x subject type)) (cdr f)))
    ((not) (not (match? (cadr f) subject type)))
    ((never) #f)
    ((type) (eq? (cadr f) type))
    ((literal) (string=? (cadr f) subject))
    ((regex) (and (regexp-exec (cadr f) subject) #t))
    ((subpath) (or (string=? subject (cadr f)) (string=? (cadr f) "/") (string-prefix? (string-append (cadr f) "/") subject)))
    (else (error "no such filter" f))))
(define (decide op subject type)
  (if (not (memq op known-ops)) (error "unknown operation in a question" op))
  (let loop ((l rules))
    (cond ((null? l) 'deny)
          ((and (any (lambda (o) (covers? o op)) (cadar l))
                (or (null? (caddar l)) (any (lambda (f) (match? f subject type)) (caddar l))))
           (caar l))
          (else (loop (cdr l))))))

(primitive-load (cadr (command-line)))
(for-each (lambda (q) (display (apply decide q)) (newline)) (with-input-from-file (caddr (command-line)) read))
