# A session of usual git commands (test_git_session.py): the same outside and inside, in every mode. In an empty folder, with a folder for remotes in $1.
# Each step prints its exit status; what it prints otherwise has paths and times in it. At the end the state of the repositories is printed.
set -u
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com GIT_TERMINAL_PROMPT=0 GIT_EDITOR=true
export GIT_AUTHOR_DATE=2024-01-01T00:00:00Z GIT_COMMITTER_DATE=2024-01-01T00:00:00Z LC_ALL=C GIT_CONFIG_NOSYSTEM=1
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always GIT_CONFIG_KEY_1=init.defaultBranch GIT_CONFIG_VALUE_1=main
R=$1
n=0
step() {
    n=$((n + 1))
    "$@" >"$R/out" 2>&1
    echo "$n $? $*" | sed "s|$R|REMOTES|g; s|$PWD|HERE|g"
}
mkdir -p "$R" && git init -q --bare "$R/r.git" && git init -q --bare "$R/lib.git"

step git init
step git init
step git config user.name me
step git config --local user.email me@example.com
step git config --get user.name
step git config core.autocrlf input
step git config --unset core.autocrlf
step git config pull.rebase false
step sh -c 'for i in 1 2 3; do echo $i > f$i; done; mkdir d; echo x > d/x; printf "*.log\n" > .gitignore; ln -s f1 l'
step git add -A
step git commit -m one
step git remote add origin "$R/r.git"
step git push -u origin main
step git fetch origin
step git remote set-url origin "$R/r.git"
step git remote rename origin up
step git remote rename up origin
step git remote add other https://example.com/x.git
step git remote -v
step git remote remove other
step git checkout -b feat
step sh -c 'echo a >> f1'
step git commit -am two
step git push -u origin feat
step git branch -m feat feature
step git branch --unset-upstream feature
step git branch -u origin/feat feature
step git checkout main
step git checkout --track -b tracked origin/feat
step git branch --edit-description tracked
step git checkout main
step sh -c 'echo b >> f2'
step git commit -am three
step git merge -m merged feature
step git pull
step git push
step git tag v1
step git tag -a v2 -m v2
step git push --tags
step git describe
step sh -c 'echo c >> f3; echo new > untracked'
step git stash
step git stash pop
step git stash -u
step git stash apply
step git stash drop
step git diff --stat
step git restore f3
step git clean -fd
step git checkout -b side HEAD~1
step sh -c 'echo s > s; git add s; git commit -m s'
step git rebase main
step git checkout main
step git cherry-pick side
step git revert --no-edit HEAD
step git reset --hard HEAD~1
step git mv f3 g3
step git rm -q d/x
step git commit -m moved
step git blame f1
step git grep -n a
step git log --oneline --graph --all
step git show HEAD
step git notes add -m note
step git format-patch -1 -o "$R"
step git checkout -b patched HEAD~1
step sh -c "git am $R/0001-moved.patch"
step git checkout main
step git archive -o "$R/a.tar" HEAD
step git bundle create "$R/b" HEAD
step git bisect start
step git bisect bad HEAD
step git bisect good v1~2
step git bisect reset
step git worktree add wt -b wt
step sh -c 'cd wt && echo w > w && git add w && git commit -m w'
step git -C wt status --porcelain
step git worktree list
step git worktree add "$R/wt2" -b wt2
step git -C "$R/wt2" commit --allow-empty -m in-wt2
step git worktree remove wt
step git worktree remove --force "$R/wt2"
step git worktree prune
step git clone "$R/r.git" cl
step git -C cl checkout --track -b feat2 origin/feat
step git -C cl config user.name you
step sh -c 'cd cl && echo y > y && git add y && git commit -m y && git push origin feat2'
step git pull --rebase origin feat2
step git clone --depth 1 "file://$R/r.git" shallow
step rm -rf shallow
step sh -c "git clone '$R/lib.git' lib && cd lib && echo lib > lib && git add lib && git commit -m lib && git push origin HEAD"
step rm -rf lib
step git submodule add "$R/lib.git" sub/lib
step git commit -m submodule
step git submodule status
step git submodule update --init --recursive
step git submodule foreach git status --porcelain
step git -C sub/lib config user.name sub
step git submodule deinit -f sub/lib
step git submodule update --init
step git submodule set-branch -b main sub/lib
step git commit -am branch
step git sparse-checkout init --cone
step git sparse-checkout set d
step git sparse-checkout disable
step git init nested
step git -C nested commit --allow-empty -m nested
step rm -rf nested
step git gc
step git fsck --strict
step git repack -ad
step git pack-refs --all
step git reflog expire --expire=now --all
step git maintenance run
step git branch -D side patched
step git config --get-regexp 'branch\..*'
step git shortlog -s HEAD
step git switch -c last
step git commit --amend --no-edit --allow-empty
step git rm -f sub/lib
step git commit -m "no submodule"
step rm -rf .git/modules/sub
step git status

for top in . cl; do
    echo "== $top"
    git -C $top status --porcelain
    git -C $top log --format='%H %P %an %s' --all
    git -C $top for-each-ref --format='%(refname) %(objectname) %(upstream)' | sort
    git -C $top config --list --local | sed "s|$R|REMOTES|g; s|$PWD|HERE|g" | sort
    git -C $top ls-files -s
done
find . -path '*/objects/*' -prune -o -path '*/logs' -prune -o -printf '%y %P\n' | grep -v -e '/ORIG_HEAD$' -e '/gc\.' -e '/index$' | LC_ALL=C sort
