#!/bin/sh
# take_object.sh WHOLE COMPILER…: stands before a compiler, in its build folder; copies the object from the build folder WHOLE
# where same_objects.py has found it there, else compiles.
whole=$1 object='' dependencies='' before=''
shift
for word; do
  case $before in
    -o) object=$word ;;
    -MF) dependencies=$word ;;
  esac
  before=$word
done
if [ -f "same/$object.d" ]; then
  cp "$whole/$object" "$object" && exec cp "same/$object.d" "$dependencies"
fi
exec "$@"
